// SPDX-License-Identifier: GPL-2.0

//! The worker's side of a command: one work item each, on a concurrency-managed queue.
//!
//! Every command that is punted is a work item of its own. While one sleeps in the file system,
//! the workqueue starts the next, so that no command waits for another but where the file system
//! itself makes it.
//!
//! The queue is per-CPU: an item runs where it was queued, next to its submitter and the data. It
//! is freezable, so that nothing is written behind a hibernation image. It has no rescuer
//! (`WQ_MEM_RECLAIM`), as a file system may flush queues that have none from within an item.

use crate::{
    kapi::{
        blk_mq::{Operation, Request},
        file::{Fallocate, FileExt},
        kiocb::{IoMode, Submitted},
        relay, task,
        workqueue::OwnedQueue,
    },
    loop_cmd::{self, Attempt, Progress},
    loop_device::{Backing, LoopDevice},
    loop_stats::Event,
};
use kernel::{prelude::*, types::ScopeGuard};

/// Most items of one device at work on one CPU. Each may hold a kworker while it sleeps, so that
/// this bounds what a device with hundreds of blocked commands takes from the system.
const MAX_ACTIVE: i32 = 128;

/// The same of those that write pages which are swapped out. They are what makes memory free, and may
/// each hold some in the file system while they wait for more: with many, none may come to its end.
const MAX_ACTIVE_SWAP: i32 = 4;

/// The queue for the commands of device `number`.
pub(crate) fn new_queue(number: u32) -> Result<OwnedQueue> {
    OwnedQueue::new_percpu_freezable(c"loop%u", number, MAX_ACTIVE)
}

/// The queue for what the kernel swaps out to device `number`, see [`MAX_ACTIVE_SWAP`].
pub(crate) fn new_swap_queue(number: u32) -> Result<OwnedQueue> {
    OwnedQueue::new_percpu_freezable(c"loop%u_swap", number, MAX_ACTIVE_SWAP)
}

/// The queue for what is relayed on device `number`, on whatever CPU has time.
pub(crate) fn new_relay_queue(number: u32) -> Result<OwnedQueue> {
    OwnedQueue::new_unbound_freezable(c"loop%u_relay", number, relay::MAX_ACTIVE)
}

/// Carries a punted command out, with all the time it takes, charged to its submitter.
pub(crate) fn run(device: &LoopDevice, mut rq: Request<LoopDevice>) {
    if let Some(wait) = rq.command().waited() {
        device.stats().count_wait(wait);
    }
    task::with_charge(rq.charge(), || match rq.operation() {
        Operation::Read | Operation::Write => transfer(device, rq),
        Operation::Flush if cfg!(without_flush) => rq.complete(Ok(())),
        Operation::Flush => {
            let result = rq.io().map_or(Err(EIO), |backing| backing.file().fsync());
            rq.complete(result);
        }
        Operation::Discard => change_space(device, rq, Fallocate::PunchHole),
        Operation::WriteZeroes { unmap: true } => change_space(device, rq, Fallocate::PunchHole),
        Operation::WriteZeroes { unmap: false } => change_space(device, rq, Fallocate::ZeroRange),
        Operation::Unsupported => rq.complete(Err(EIO)),
    });
}

/// A READ or WRITE, from where an earlier attempt stopped to its end.
fn transfer(device: &LoopDevice, rq: Request<LoopDevice>) {
    // Until the call into the file has returned: only then does the write hold nothing that a try
    // of another needs.
    let _blocking = (rq.operation() == Operation::Write)
        .then(|| ScopeGuard::new(|| device.leave_blocking_write()));
    let mut data = match rq.describe_data() {
        Ok(data) => data,
        Err(rq) => return rq.complete(Err(EIO)),
    };
    // The command may be what makes memory free: it goes on without.
    if data.is_in_parts() {
        device.stats().count(Event::InParts);
    }
    data.command().attempt = Attempt::Worker;
    if data.operation() == Operation::Write {
        data.start_write(|backing| backing.file(), true);
    }
    let mut park = data.operation() == Operation::Read
        && !data.command().parked
        && data.io().is_some_and(Backing::can_park_reads);
    // Reclaim in a worker of the file system, which has its locks, would swap out here, and wait for
    // others that wait for those.
    let sync = data.is_swap_out();
    loop {
        // Before the call: the page may have it afterwards.
        data.command().parked |= park;
        let Some((position, direct)) = loop_cmd::target(&data) else {
            return data.into_request().complete(Err(EIO));
        };
        let done = data.command().done;
        let mode = IoMode {
            direct,
            sync,
            nowait: false,
            cached_only: false,
            parked: park,
        };
        match data.submit(|backing| backing.file(), position, done, mode) {
            Submitted::Queued => return,
            Submitted::Done(back, Err(EAGAIN)) if park => {
                park = false;
                data = back;
            }
            Submitted::Done(mut back, result) => match loop_cmd::advance(&mut back, result) {
                Progress::Partial => data = back,
                progress => return loop_cmd::end(back.into_request(), progress),
            },
        }
    }
}

/// DISCARD and WRITE_ZEROES. A file that cannot do it says so once: the limits are taken back. So it
/// is if it may not be done, to a file that was made immutable, say: who wants zeroes then writes
/// them, which the file may still take.
fn change_space(device: &LoopDevice, rq: Request<LoopDevice>, how: Fallocate) {
    let result = match (loop_cmd::position(&rq), rq.io()) {
        (Some(position), Some(backing)) => {
            backing.file().fallocate(how, position, rq.bytes().into())
        }
        _ => Err(EIO),
    };
    match result {
        Err(EOPNOTSUPP | EPERM | EACCES | ETXTBSY) => {
            let is_news = device.forget_fallocate(&rq, how);
            rq.end_unsupported(is_news);
        }
        result => rq.complete(result),
    }
}
