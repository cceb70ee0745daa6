// SPDX-License-Identifier: GPL-2.0

//! One command's life, from `queue_rq` to its completion.
//!
//! ```text
//!             queue_rq
//!                |
//!          may it be tried? --no--------------------------+
//!                | yes: here, or with others in the relay |
//!            Prepared (memory described, write access)    |
//!                | try (IOCB_NOWAIT)                      v
//!      +---------+-----------+                         Punted --> work item
//!      v         v           v                            ^          |
//!    done     queued       again -------------------------+          | blocking call
//!      |         | io_done: again, short -----------------+          |
//!      |         v                                                   v
//!      +----> completed <----------------------------------- done, queued
//! ```
//!
//! A worker's direct transfer that ends short goes to the worker again, for its rest. A worker does
//! not wait for a page that is being read into the page cache: it leaves the command with the page,
//! once, and the command goes to a worker again when that is there.
//!
//! The states are types: [`Request`] and [`DataRequest`] are what the driver owns; a try consumes
//! the latter and gives it back only if the file did not keep it; a punt consumes the former. So a
//! command that is completed, queued in the file or queued for a worker has no owner here that
//! could touch it.

use crate::{
    geometry,
    kapi::{
        blk_mq::{Batch, EndingRequests, Operation, Request, RequestList},
        file::FileExt,
        kiocb::{DataRequest, IoMode, Submitted},
        relay::RelayedRequests,
        task::{self, TaskContext},
        trace,
    },
    loop_device::{Backing, LoopDevice},
    loop_stats::Event,
    policy::{self, Context, Op, Outcome, Refusal},
};
use kernel::{
    prelude::*,
    time::{Delta, Instant, Monotonic},
};

/// Least kernel stack in bytes for an inline try: half of it, 8 KiB of 16 on x86-64. Measured with
/// the stack tracer on 7.3.4: below `queue_rq`, direct I/O on ext4 over a disk took 1.8 KB, an
/// interrupt included. On XFS over dm-crypt over two dm-linear no task took more than 5.1 KB in
/// all, from the system call on. The rest is margin.
const STACK_FLOOR: usize = task::STACK_SIZE / 2;

/// Who has called the file for a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// `queue_rq`, with `IOCB_NOWAIT`.
    Inline,
    /// The command's work item.
    Worker,
}

/// The driver's part of a request.
pub(crate) struct Command {
    /// Bytes transferred by earlier attempts.
    pub(crate) done: u32,
    /// The attempt that is on its way.
    pub(crate) attempt: Attempt,
    /// It was left with a page of the file once, for which a worker would have had to wait.
    pub(crate) parked: bool,
    /// When it was last handed to its work item.
    enqueued: Option<Instant<Monotonic>>,
}

impl Command {
    /// A command of which nothing is done.
    pub(crate) fn new() -> Self {
        Self {
            done: 0,
            attempt: Attempt::Inline,
            parked: false,
            enqueued: None,
        }
    }

    /// How long its work item, which begins now, was waited for.
    pub(crate) fn waited(&mut self) -> Option<Delta> {
        self.enqueued.take().map(|since| since.elapsed())
    }
}

/// The task that submits, as it was before anything was changed for tries.
struct Submitter {
    task: TaskContext,
    plugged_with_others: bool,
    freezer_active: bool,
}

/// Takes requests from the block layer. The task is looked at once for all of them, and what the
/// file submits for them goes out together.
pub(crate) fn queue(device: &LoopDevice, mut batch: Batch<'_, LoopDevice>) {
    let submitter = Submitter {
        task: TaskContext::current(),
        plugged_with_others: batch.is_plugged_with_others(),
        freezer_active: task::freezer_active(),
    };
    let relays = device.relays(&batch);
    let mut relayed = RequestList::new();
    // Ended when the task is again as the submitters know it: an end may submit more.
    let mut ending = EndingRequests::new();
    task::with_detached_submission(if relays { 0 } else { batch.len() }, || {
        for rq in &mut batch {
            match begin(device, &submitter, rq) {
                Begun::Ended(rq, result) => ending.push(rq, result),
                Begun::Punted => {}
                Begun::ToTry(rq) if relays && may_relay(&rq) => {
                    device.stats().count(Event::Relayed);
                    relayed.push(rq);
                }
                Begun::ToTry(rq) => match attempt(device, rq) {
                    Tried::Ended(rq, result) => ending.push(rq, result),
                    Tried::Again(data) => again(data),
                    Tried::Gone => {}
                },
            }
        }
    });
    batch.relay(relayed);
}

/// Whether the relay may try a command. One of a cgroup that is held back below would hold up those
/// behind it. A buffered READ is done at once, or not at all: a copy, best made where it is wanted.
fn may_relay(rq: &Request<LoopDevice>) -> bool {
    rq.is_of_root_cgroup() && rq.io().is_some_and(Backing::is_direct)
}

/// Tries requests that [`queue`] has left to the relay.
pub(crate) fn relay(device: &LoopDevice, mut requests: RelayedRequests<'_, LoopDevice>) {
    let mut ending = EndingRequests::new();
    task::with_detached_submission(requests.len(), || {
        while let Some(rq) = requests.next() {
            let mut tried = attempt(device, rq);
            if let Tried::Again(data) = tried {
                tried = attempt_again(device, data, &mut requests);
            }
            match tried {
                Tried::Ended(rq, result) => ending.push(rq, result),
                Tried::Again(data) => again(data),
                Tried::Gone => {}
            }
        }
    });
}

/// The first WRITE of each tick finds the file's times out of date, and would have to wait for a
/// transaction; so would all others, until its work item has run. Nobody waits for this task but for
/// what it carries, which another one takes on if this takes long: so it sees to it itself.
fn attempt_again(
    device: &LoopDevice,
    data: DataRequest<LoopDevice>,
    requests: &mut RelayedRequests<'_, LoopDevice>,
) -> Tried {
    if data.operation() != Operation::Write {
        return Tried::Again(data);
    }
    let times = requests.step_aside(|| data.io().map(|backing| backing.file().update_times()));
    match times {
        Some(Some(Ok(()))) => {
            device.stats().count(Event::Stamped);
            attempt(device, data.into_request())
        }
        _ => Tried::Again(data),
    }
}

/// What becomes of a request that the block layer sends.
enum Begun {
    /// It has come to its end.
    Ended(Request<LoopDevice>, Result),
    /// It went to its work item.
    Punted,
    /// It may be tried.
    ToTry(Request<LoopDevice>),
}

/// Looks at a request; hands it to its work item if it may not be tried.
fn begin(device: &LoopDevice, submitter: &Submitter, mut rq: Request<LoopDevice>) -> Begun {
    *rq.command() = Command::new();
    let Some(backing) = rq.io() else {
        return Begun::Ended(rq, Err(EIO));
    };
    let operation = rq.operation();
    if operation != Operation::Read && operation != Operation::Flush && backing.is_read_only() {
        return Begun::Ended(rq, Err(EIO));
    }
    match may_try(device, submitter, &rq, backing) {
        Ok(()) => Begun::ToTry(rq),
        Err(refusal) => {
            refuse(rq, refusal);
            Begun::Punted
        }
    }
}

/// Whether the command may be tried in this task: by the kind of command and the device's mode, by
/// the file, by the state of the task, and last by the write policy, which counts what it is asked.
fn may_try(
    device: &LoopDevice,
    submitter: &Submitter,
    rq: &Request<LoopDevice>,
    backing: &Backing,
) -> Result<(), Refusal> {
    let op = match rq.operation() {
        Operation::Read if backing.is_direct() => Op::Read,
        Operation::Read => Op::BufferedRead,
        Operation::Write if backing.is_direct() => Op::DirectWrite,
        Operation::Write => Op::BufferedWrite,
        Operation::Flush => Op::Flush,
        Operation::Discard => Op::Discard,
        Operation::WriteZeroes { .. } => Op::WriteZeroes,
        Operation::Unsupported => return Err(Refusal::Op),
    };
    policy::op_allowed(device.mode(), op)?;
    if !backing.may_try() && !Refusal::Filesystem.is_left_out() {
        return Err(Refusal::Filesystem);
    }
    let task = &submitter.task;
    let context = Context {
        journal_info: task.journal_info,
        nofs: task.nofs(),
        noio: task.noio(),
        // A task that reclaims nothing may be the one that sends a swap-out on.
        memalloc: task.memalloc() || rq.is_swap_out(),
        stack_left: task.stack_left,
        workqueue_worker: task.workqueue_worker(),
        plugged_with_others: submitter.plugged_with_others,
        foreign_cgroup: rq.is_of_foreign_cgroup(),
        file_size_limited: op == Op::DirectWrite && task.file_size_limited,
        freezer_active: submitter.freezer_active,
    };
    policy::check_context(&context, STACK_FLOOR)?;
    if op == Op::DirectWrite && !device.write_policy_allows() {
        return Err(Refusal::Policy);
    }
    Ok(())
}

/// What has become of a request by a try.
enum Tried {
    /// It has come to its end.
    Ended(Request<LoopDevice>, Result),
    /// The file would have had to wait; nothing is transferred.
    Again(DataRequest<LoopDevice>),
    /// The file has it, or its work item.
    Gone,
}

/// Calls the file in this task, without waiting; in the scope that [`queue`] or [`relay`] has made for
/// it.
fn attempt(device: &LoopDevice, rq: Request<LoopDevice>) -> Tried {
    let write = rq.operation() == Operation::Write;
    let mut data = match rq.describe_data() {
        Ok(data) => data,
        Err(rq) => return Tried::Ended(rq, Err(EIO)),
    };
    if data.is_in_parts() {
        refuse(data.into_request(), Refusal::Reclaim);
        return Tried::Gone;
    }
    let wait = Refusal::Frozen.is_left_out();
    if write && !data.start_write(|backing| backing.file(), wait) {
        refuse(data.into_request(), Refusal::Frozen);
        return Tried::Gone;
    }
    let Some((position, direct)) = target(&data) else {
        return Tried::Ended(data.into_request(), Err(EIO));
    };
    let mode = IoMode {
        direct,
        sync: false,
        nowait: true,
        // A NOWAIT read that finds nothing cached would start the readahead here, in the
        // submitter, before it says EAGAIN.
        cached_only: !direct,
        parked: false,
    };
    match data.submit(|backing| backing.try_file(write), position, 0, mode) {
        Submitted::Queued => Tried::Gone,
        Submitted::Done(data, Err(EAGAIN)) => Tried::Again(data),
        Submitted::Done(mut data, result) => match advance(&mut data, result) {
            Progress::Complete => {
                device.stats().count(Event::InlineDone);
                trace::tried(&data, c"done");
                if write {
                    device.record_write(Outcome::Accepted);
                }
                Tried::Ended(data.into_request(), Ok(()))
            }
            // EOPNOTSUPP, a short transfer, or an error: the worker carries on, and finds out what
            // is a real one.
            _ => {
                again(data);
                Tried::Gone
            }
        },
    }
}

/// The file has finished what it had queued. Any context.
pub(crate) fn io_done(mut data: DataRequest<LoopDevice>, result: Result<u32>) {
    let write = data.operation() == Operation::Write;
    let progress = advance(&mut data, result);
    if data.command().attempt == Attempt::Worker {
        return match progress {
            Progress::Partial => to_worker(data.into_request()),
            progress => end(data.into_request(), progress),
        };
    }
    match progress {
        Progress::Complete => {
            data.device().stats().count(Event::InlineQueued);
            trace::tried(&data, c"queued");
            if write {
                data.device().record_write(Outcome::Accepted);
            }
            data.into_request().complete(Ok(()));
        }
        Progress::Failed(error) if cfg!(without_late_again) => {
            data.into_request().complete(Err(error));
        }
        // An EAGAIN that comes late, from below the file.
        _ => again(data),
    }
}

/// The page is there that a worker has left the command with. Any context.
pub(crate) fn page_read(data: DataRequest<LoopDevice>) {
    data.device().stats().count(Event::Parked);
    to_worker(data.into_request());
}

/// A try has come back unfinished.
fn again(data: DataRequest<LoopDevice>) {
    data.device().stats().count(Event::InlineAgain);
    trace::tried(&data, c"again");
    if data.operation() == Operation::Write {
        data.device().record_write(Outcome::Again);
    }
    punt(data.into_request(), c"again");
}

/// The command is not tried.
fn refuse(rq: Request<LoopDevice>, refusal: Refusal) {
    rq.device().stats().count(Event::NotTried(refusal));
    punt(rq, refusal.name());
}

/// Hands the command to its work item for the first time.
fn punt(rq: Request<LoopDevice>, reason: &'static CStr) {
    rq.device().stats().count(Event::Punted);
    trace::punted(&rq, reason);
    to_worker(rq);
}

/// Hands the command to its work item.
fn to_worker(mut rq: Request<LoopDevice>) {
    rq.command().enqueued = Some(Instant::now());
    if rq.operation() == Operation::Write {
        rq.device().enter_blocking_write();
    }
    rq.enqueue();
}

/// How far a transfer has come.
pub(crate) enum Progress {
    /// All bytes are transferred.
    Complete,
    /// Some are; the rest is worth another call.
    Partial,
    /// A READ has reached the end of the file.
    EndOfFile,
    /// The file reports an error.
    Failed(Error),
}

/// Accounts for the result of one call.
pub(crate) fn advance(data: &mut DataRequest<LoopDevice>, result: Result<u32>) -> Progress {
    match result {
        Ok(0) if data.operation() == Operation::Read => Progress::EndOfFile,
        // A WRITE that neither moves nor fails would go on for ever.
        Ok(0) => Progress::Failed(EIO),
        Ok(bytes) => {
            let total = data.bytes();
            let command = data.command();
            command.done = command.done.saturating_add(bytes);
            if command.done >= total {
                Progress::Complete
            } else {
                Progress::Partial
            }
        }
        Err(error) => Progress::Failed(error),
    }
}

/// Ends a command whose last call was the worker's. Any context.
pub(crate) fn end(mut rq: Request<LoopDevice>, progress: Progress) {
    match progress {
        Progress::Complete => rq.complete(Ok(())),
        Progress::EndOfFile => {
            let done = rq.command().done;
            rq.end_short_read(done);
        }
        Progress::Failed(error) => rq.complete(Err(error)),
        // Callers go on with these; ending one would lose its rest.
        Progress::Partial => rq.complete(Err(EIO)),
    }
}

/// Byte position in the file of the beginning of the command.
pub(crate) fn position(rq: &Request<LoopDevice>) -> Option<u64> {
    geometry::file_position(rq.sector(), rq.io()?.offset())
}

/// The same for a READ or WRITE, and whether it goes past the page cache.
pub(crate) fn target(rq: &Request<LoopDevice>) -> Option<(u64, bool)> {
    Some((position(rq)?, rq.io()?.is_direct()))
}
