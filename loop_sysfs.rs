// SPDX-License-Identifier: GPL-2.0

//! `/sys/block/loopN/loop/` while a device is bound: the six attributes of the in-tree driver, and
//! this driver's own.

use crate::{
    kapi::{
        file::FileExt,
        gendisk::GenDisk,
        sysfs::{disk_attributes, DiskAttribute},
    },
    loop_device::{Binding, LoopDevice},
    loop_info::Flags,
    loop_stats::Event,
    policy::{Mode, Refusal},
};
use kernel::{
    fmt::{self, Write as _},
    prelude::*,
    str::Formatter,
};

/// Writes one line.
fn line(page: &mut [u8], value: impl fmt::Display) -> Result<usize> {
    let mut out = Formatter::new(page);
    out.write_fmt(fmt!("{value}\n"))?;
    Ok(out.bytes_written())
}

/// Writes one line about the binding; nothing while it comes or goes.
fn of_binding<T: fmt::Display>(
    disk: &GenDisk<LoopDevice>,
    page: &mut [u8],
    f: impl FnOnce(&Binding) -> T,
) -> Result<usize> {
    match disk.driver().with_binding(f) {
        Some(value) => line(page, value),
        None => Ok(0),
    }
}

/// Declares attributes by name, by how to show them and, if they can be written to, how to take that.
macro_rules! attributes {
    ($(
        $ident:ident $name:literal |$disk:ident, $page:ident| $show:expr
        $(, |$stored:ident, $text:ident| $store:expr)?;
    )*) => {$(
        struct $ident;

        #[vtable]
        impl DiskAttribute<LoopDevice> for $ident {
            const NAME: &'static CStr = $name;

            fn show($disk: &GenDisk<LoopDevice>, $page: &mut [u8]) -> Result<usize> {
                $show
            }

            $(fn store($stored: &GenDisk<LoopDevice>, $text: &[u8]) -> Result {
                $store
            })?
        }
    )*

        disk_attributes! {
            pub(crate) static GROUP = c"loop" for LoopDevice { $($ident),* }
        }
    };
}

fn flag(disk: &GenDisk<LoopDevice>, page: &mut [u8], flag: Flags) -> Result<usize> {
    of_binding(disk, page, |b| u8::from(b.flags().contains(flag)))
}

fn counter(disk: &GenDisk<LoopDevice>, page: &mut [u8], event: Event) -> Result<usize> {
    line(page, disk.driver().stats().total(event))
}

/// One line of counts, blanks between.
fn worker_wait(disk: &GenDisk<LoopDevice>, page: &mut [u8]) -> Result<usize> {
    let mut out = Formatter::new(page);
    for (bucket, count) in disk.driver().stats().waits().iter().enumerate() {
        let blank = if bucket == 0 { "" } else { " " };
        out.write_fmt(fmt!("{blank}{count}"))?;
    }
    out.write_str("\n")?;
    Ok(out.bytes_written())
}

/// `EINVAL` if it is none.
fn set_mode(disk: &GenDisk<LoopDevice>, text: &[u8]) -> Result {
    disk.driver().set_mode(Mode::parse(text).ok_or(EINVAL)?);
    Ok(())
}

fn backing_file(disk: &GenDisk<LoopDevice>, page: &mut [u8]) -> Result<usize> {
    // One byte for the newline.
    let (path, _) = page
        .split_last_mut()
        .map(|(last, rest)| (rest, last))
        .ok_or(EINVAL)?;
    let Some(len) = disk.driver().with_binding(|b| b.file().path(path)) else {
        return Ok(0);
    };
    let len = len?;
    *page.get_mut(len).ok_or(ENAMETOOLONG)? = b'\n';
    Ok(len + 1)
}

attributes! {
    BackingFile c"backing_file" |disk, page| backing_file(disk, page);
    Offset c"offset" |disk, page| of_binding(disk, page, Binding::offset);
    SizeLimit c"sizelimit" |disk, page| of_binding(disk, page, Binding::sizelimit);
    Autoclear c"autoclear" |disk, page| flag(disk, page, Flags::AUTOCLEAR);
    PartScan c"partscan" |disk, page| flag(disk, page, Flags::PARTSCAN);
    Dio c"dio" |disk, page| flag(disk, page, Flags::DIRECT_IO);

    NoWait c"nowait"
        |disk, page| line(page, disk.driver().mode().name()),
        |disk, text| set_mode(disk, text);
    WriteLevel c"write_level" |disk, page| line(page, disk.driver().write_level());
    BlockingWrites c"blocking_writes" |disk, page| line(page, disk.driver().blocking_writes());
    InlineDone c"inline_done" |disk, page| counter(disk, page, Event::InlineDone);
    InlineQueued c"inline_queued" |disk, page| counter(disk, page, Event::InlineQueued);
    InlineAgain c"inline_again" |disk, page| counter(disk, page, Event::InlineAgain);
    Relayed c"relayed" |disk, page| counter(disk, page, Event::Relayed);
    Stamped c"stamped" |disk, page| counter(disk, page, Event::Stamped);
    Punted c"punted" |disk, page| counter(disk, page, Event::Punted);
    Parked c"parked" |disk, page| counter(disk, page, Event::Parked);
    InParts c"in_parts" |disk, page| counter(disk, page, Event::InParts);
    WorkerWait c"worker_wait" |disk, page| worker_wait(disk, page);
    NotTriedOp c"not_tried_op"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Op));
    NotTriedPolicy c"not_tried_policy"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Policy));
    NotTriedFilesystem c"not_tried_filesystem"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Filesystem));
    NotTriedJournal c"not_tried_journal"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Journal));
    NotTriedNofs c"not_tried_nofs"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Nofs));
    NotTriedNoio c"not_tried_noio"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Noio));
    NotTriedReclaim c"not_tried_reclaim"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Reclaim));
    NotTriedStack c"not_tried_stack"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Stack));
    NotTriedWorker c"not_tried_worker"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Worker));
    NotTriedPlug c"not_tried_plug"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Plug));
    NotTriedCgroup c"not_tried_cgroup"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Cgroup));
    NotTriedRlimit c"not_tried_rlimit"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Rlimit));
    NotTriedFrozen c"not_tried_frozen"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Frozen));
    NotTriedFreezer c"not_tried_freezer"
        |disk, page| counter(disk, page, Event::NotTried(Refusal::Freezer));
}
