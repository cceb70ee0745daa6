// SPDX-License-Identifier: GPL-2.0

//! blk-mq with what a stacked driver needs: a blocking tag set, per-request data, requests that
//! are owned, and state that changes only while the queue is frozen.
//!
//! C headers: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h),
//! [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use super::{
    bdev::{BlockDevice, OpenMode},
    bindings,
    gendisk::{ClosedDisk, DiskRef, GenDisk},
    kiocb::{DataRequest, IoSlot},
    queue_limits::LimitsUpdate,
    relay::{Relay, RelayedRequests},
    task, trace,
    workqueue::OwnedQueue,
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem,
    ptr::{self, NonNull},
    sync::atomic::{fence, AtomicPtr, Ordering},
};
use kernel::{
    error::to_result,
    ffi,
    module::ModuleMetadata,
    new_work,
    prelude::*,
    sync::{rcu, LockClassKey},
    types::Opaque,
    workqueue::{Queue, RawWorkItem, Work, WorkItem, WorkItemPointer},
};

/// A block driver. The value itself is the disk's private data.
#[vtable]
pub(crate) trait Driver: Send + Sync + Sized + 'static {
    /// The module that holds the driver's code; open disks keep it loaded.
    type Module: ModuleMetadata;

    /// State that requests read without a lock. It appears at any time, is replaced only while the
    /// queue is frozen, hence while no request exists, and is taken away only from a disk that
    /// nobody has open.
    type Io: Send + Sync + 'static;

    /// The driver's own part of a request.
    type Command: Send + 'static;

    /// Makes the command of a request, once per tag.
    fn new_command() -> Self::Command;

    /// Takes requests. Process context, sleeping allowed (`BLK_MQ_F_BLOCKING`), in the task that
    /// submitted them, in a task that flushes its plug, or in a kblockd worker. What it leaves of a
    /// batch comes again, one by one.
    fn queue(&self, batch: Batch<'_, Self>);

    /// Takes requests that were handed over by [`Batch::relay`], in a worker of the disk's relay
    /// queue.
    fn relay(&self, requests: RelayedRequests<'_, Self>);

    /// Continues a request that was [`Request::enqueue`]d, in a worker of the disk's workqueue.
    fn run(&self, rq: Request<Self>);

    /// A file has finished what [`DataRequest::submit`] queued. Any context, even hard interrupt.
    fn io_done(rq: DataRequest<Self>, result: Result<u32>);

    /// The page that a READ was left with ([`IoMode::parked`]) is read, or could not be; the READ may
    /// be submitted anew. Any context, with interrupts off and a lock of the page cache held.
    ///
    /// [`IoMode::parked`]: super::kiocb::IoMode::parked
    fn page_read(rq: DataRequest<Self>);

    /// The disk is being opened, under its `open_mutex`.
    fn open(disk: &GenDisk<Self>) -> Result;

    /// The last opener has gone, under the disk's `open_mutex`.
    fn last_close(disk: &ClosedDisk<'_, Self>);

    /// A native ioctl that the block layer does not know itself. Process context, no locks.
    fn ioctl(
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        cmd: u32,
        arg: usize,
    ) -> Result<i32>;

    /// The same for a 32-bit process.
    #[cfg(CONFIG_COMPAT)]
    fn compat_ioctl(
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        cmd: u32,
        arg: usize,
    ) -> Result<i32>;

    /// Runs on a system workqueue after [`GenDisk::schedule_work`].
    fn disk_work(disk: &GenDisk<Self>);
}

/// What a disk of `D` has as its private data and its queue's.
#[pin_data]
pub(super) struct DiskData<D: Driver> {
    /// Runs [`Driver::relay`]. The first field, so that it is dropped, hence flushed, before what it
    /// hands requests on to.
    #[pin]
    pub(super) relay: Relay<D>,
    /// Runs [`Driver::run`]. Dropped, hence flushed, before the driver.
    queue: OwnedQueue,
    /// The same for what is swapped out.
    swap_queue: OwnedQueue,
    /// Null, or from `KBox::into_raw`.
    io: AtomicPtr<D::Io>,
    /// The disk; set before it is added.
    disk: *mut bindings::gendisk,
    #[pin]
    pub(super) work: Work<DiskData<D>, DISK_WORK>,
    #[pin]
    pub(super) driver: D,
}

// SAFETY: The pointers are to things that any task may use.
unsafe impl<D: Driver> Send for DiskData<D> {}
// SAFETY: As above; the I/O state is behind an atomic pointer and `Sync`.
unsafe impl<D: Driver> Sync for DiskData<D> {}

/// Tells the work item of the disk from that of a request.
pub(super) const DISK_WORK: u64 = 1;

impl<D: Driver> WorkItem<DISK_WORK> for DiskData<D> {
    type Pointer = DiskRef<D>;

    fn run(disk: DiskRef<D>) {
        D::disk_work(&disk);
    }
}

kernel::impl_has_work! {
    impl{D: Driver} HasWork<DiskData<D>, 1> for DiskData<D> { self.work }
}

impl<D: Driver> DiskData<D> {
    pub(super) fn new<E>(
        relay_queue: OwnedQueue,
        queue: OwnedQueue,
        swap_queue: OwnedQueue,
        driver: impl PinInit<D, E>,
    ) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            relay <- Relay::new(relay_queue),
            queue,
            swap_queue,
            io: AtomicPtr::new(ptr::null_mut()),
            disk: ptr::null_mut(),
            work <- new_work!("DiskData::work"),
            driver <- driver,
        })
    }

    /// Tells the data which disk it belongs to.
    pub(super) fn set_disk(&mut self, disk: *mut bindings::gendisk) {
        self.disk = disk;
    }

    /// The disk.
    pub(super) fn disk(&self) -> *mut bindings::gendisk {
        self.disk
    }

    /// Takes the I/O state out.
    ///
    /// # Safety
    ///
    /// No request exists, nor can one come into being.
    unsafe fn swap_io(&self, new: Option<KBox<D::Io>>) -> Option<KBox<D::Io>> {
        let new = new.map_or(ptr::null_mut(), KBox::into_raw);
        // Release for the contents of `new`; acquire for those of the old value. Both pair with
        // the acquire load in `Request::io`.
        let old = self.io.swap(new, Ordering::AcqRel);
        // SAFETY: A non-null value came from `KBox::into_raw`, and no request borrows from it.
        (!old.is_null()).then(|| unsafe { KBox::from_raw(old) })
    }
}

impl<D: Driver> DiskData<D> {
    /// Gives the driver its I/O state, if it has none yet. Needs no freeze: requests that came
    /// before saw none, and fail.
    pub(super) fn publish_io(&self, io: KBox<D::Io>) -> Result<(), KBox<D::Io>> {
        let io = KBox::into_raw(io);
        match self
            .io
            .compare_exchange(ptr::null_mut(), io, Ordering::Release, Ordering::Relaxed)
        {
            Ok(_) => Ok(()),
            // SAFETY: From `into_raw` just now, and not stored.
            Err(_) => Err(unsafe { KBox::from_raw(io) }),
        }
    }

    /// Drops the I/O state of a disk that goes away.
    ///
    /// # Safety
    ///
    /// No request exists, nor can one come into being.
    pub(super) unsafe fn drop_io(&self) {
        // SAFETY: The same requirement.
        drop(unsafe { self.swap_io(None) });
    }
}

/// The private part of a request: the driver's command, and what kapi needs for it.
#[pin_data]
pub(super) struct Pdu<D: Driver> {
    #[pin]
    work: Work<Pdu<D>>,
    #[pin]
    pub(super) io: IoSlot,
    /// What `complete` ends the request with.
    status: UnsafeCell<bindings::blk_status_t>,
    command: UnsafeCell<D::Command>,
}

impl<D: Driver> WorkItem for Pdu<D> {
    type Pointer = Request<D>;

    fn run(rq: Request<D>) {
        let data = ptr::from_ref(rq.data());
        // SAFETY: This runs in an item of one of the disk's workqueues. The data of a disk drops
        // those first, which waits for the item, so that the rest of it outlives this call even
        // if the request does not.
        unsafe { (*data).driver.run(rq) };
    }
}

/// What a request wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// REQ_OP_READ.
    Read,
    /// REQ_OP_WRITE.
    Write,
    /// REQ_OP_FLUSH.
    Flush,
    /// REQ_OP_DISCARD.
    Discard,
    /// REQ_OP_WRITE_ZEROES; `unmap` unless REQ_NOUNMAP is set.
    WriteZeroes {
        /// The space may be given back.
        unmap: bool,
    },
    /// Anything else.
    Unsupported,
}

/// A started request that the driver owns.
///
/// A request is in exactly one place, and has exactly one owner, at any time:
///
/// ```text
///   block layer --queue_rq--> Request --submit--> file (io_done, or Done) --> Request
///                               |  ^
///                        enqueue|  |run
///                               v  |
///                            workqueue
///   Request --end*, complete--> block layer
/// ```
///
/// The owner is a value of this type, or the file or workqueue that swallowed one. Nothing else
/// can reach the request, so that a completed one cannot be touched, nor completed twice. A value
/// that is dropped ends its request with `EIO`, so that none can be forgotten.
///
/// # Invariants
///
/// The pointer is a request of a queue of `D`, started and not ended, whose private data is a
/// valid `Pdu<D>`, and this value owns it.
#[must_use]
pub(crate) struct Request<D: Driver>(NonNull<bindings::request>, PhantomData<D>);

// SAFETY: A request may be worked on and ended by any task. Its command is `Send`.
unsafe impl<D: Driver> Send for Request<D> {}

impl<D: Driver> Request<D> {
    /// # Safety
    ///
    /// The type invariants hold for `rq`, and the caller passes its ownership on.
    pub(super) unsafe fn from_raw(rq: NonNull<bindings::request>) -> Self {
        // INVARIANT: By the safety requirement.
        Self(rq, PhantomData)
    }

    /// Starts a request that blk-mq has handed over.
    ///
    /// # Safety
    ///
    /// `rq` is a valid request of a queue of `D`, and the driver's from now on.
    unsafe fn start(rq: NonNull<bindings::request>) -> Self {
        // SAFETY: By the safety requirement. Started, the request satisfies the type invariants:
        // its private data was made by `init_request_callback`.
        unsafe {
            bindings::blk_mq_start_request(rq.as_ptr());
            Self::from_raw(rq)
        }
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::request {
        self.0.as_ptr()
    }

    /// Gives the request up without ending it.
    pub(super) fn into_raw(self) -> NonNull<bindings::request> {
        let rq = self.0;
        mem::forget(self);
        rq
    }

    pub(super) fn pdu(&self) -> NonNull<Pdu<D>> {
        // SAFETY: By the type invariant the request is valid.
        let pdu = unsafe { bindings::blk_mq_rq_to_pdu(self.as_ptr()) };
        // SAFETY: The private data follows the request and is never null.
        unsafe { NonNull::new_unchecked(pdu.cast()) }
    }

    /// The `I/O` half of the private data.
    pub(super) fn slot(&self) -> &IoSlot {
        // SAFETY: By the type invariant.
        unsafe { &(*self.pdu().as_ptr()).io }
    }

    fn queue(&self) -> *mut bindings::request_queue {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).q }
    }

    pub(super) fn data(&self) -> &DiskData<D> {
        // SAFETY: `queuedata` of a queue of `D` is its `DiskData<D>`, which outlives requests.
        unsafe { &*(*self.queue()).queuedata.cast::<DiskData<D>>() }
    }

    /// The driver instance that the request was sent to.
    pub(crate) fn device(&self) -> &D {
        &self.data().driver
    }

    /// Schedules [`Driver::disk_work`] of the disk. Any context.
    pub(crate) fn schedule_disk_work(&self) {
        // SAFETY: The disk outlives its requests.
        unsafe { GenDisk::<D>::from_raw(self.data().disk()) }.schedule_work();
    }

    /// The driver's I/O state. It stays as it is while the request exists and the disk is open.
    pub(crate) fn io(&self) -> Option<&D::Io> {
        let io = self.data().io.load(Ordering::Acquire);
        // SAFETY: Null, or a valid value that is dropped only after the queue was frozen, which
        // this request prevents, or after its tag was seen to be free (`ClosedDisk::withdraw_io`).
        // Pairs with the release in `publish_io` and `swap_io`.
        unsafe { io.as_ref() }
    }

    /// The driver's command of this request.
    pub(crate) fn command(&mut self) -> &mut D::Command {
        // SAFETY: The request is owned by `self`, borrowed exclusively.
        unsafe { &mut *(*self.pdu().as_ptr()).command.get() }
    }

    /// What is wanted.
    pub(crate) fn operation(&self) -> Operation {
        // SAFETY: By the type invariant.
        let flags = unsafe { (*self.as_ptr()).cmd_flags };
        match flags & bindings::REQ_OP_MASK {
            bindings::req_op_REQ_OP_READ => Operation::Read,
            bindings::req_op_REQ_OP_WRITE => Operation::Write,
            bindings::req_op_REQ_OP_FLUSH => Operation::Flush,
            bindings::req_op_REQ_OP_DISCARD => Operation::Discard,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Operation::WriteZeroes {
                unmap: flags & bindings::REQ_NOUNMAP == 0,
            },
            _ => Operation::Unsupported,
        }
    }

    /// First sector, in units of 512 bytes.
    pub(crate) fn sector(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).__sector }
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).__data_len }
    }

    /// I/O priority of the submitter.
    pub(super) fn ioprio(&self) -> u16 {
        // SAFETY: By the type invariant; the bios of a request live as long.
        unsafe { (*self.as_ptr()).bio.as_ref() }.map_or(0, |bio| bio.bi_ioprio)
    }

    fn blkcg(&self) -> *mut bindings::cgroup_subsys_state {
        // SAFETY: By the type invariant. A bio holds its blkg.
        unsafe {
            let bio = (*self.as_ptr()).bio;
            if bio.is_null() {
                ptr::null_mut()
            } else {
                bindings::kapi_bio_blkcg_css(bio)
            }
        }
    }

    /// The cgroups to charge the work for this request to.
    pub(crate) fn charge(&self) -> task::Charge {
        task::Charge {
            blkcg: self.blkcg(),
        }
    }

    /// Whether reclaim waits for the request, or would like to: it has a page that is swapped out.
    pub(crate) fn is_swap_out(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).cmd_flags & bindings::REQ_SWAP != 0 }
    }

    /// Whether the request is charged to the root blkcg, which no policy holds back.
    pub(crate) fn is_of_root_cgroup(&self) -> bool {
        let css = self.blkcg();
        // SAFETY: Null, or held by the bio of the request; `parent` never changes.
        css.is_null() || unsafe { (*css).parent.is_null() }
    }

    /// Whether the request is charged to another blkcg than the current task's.
    pub(crate) fn is_of_foreign_cgroup(&self) -> bool {
        let css = self.blkcg();
        let _rcu = rcu::read_lock();
        // SAFETY: RCU keeps the css of the current task, which is only compared.
        !css.is_null() && css != unsafe { bindings::kapi_current_blkcg_css() }
    }

    /// Hands the request to the disk's workqueue, a worker of which calls [`Driver::run`] with it.
    /// Any context.
    pub(crate) fn enqueue(self) {
        // Whoever waits for the freeze protection must not wait for the queue as well: the workers
        // ahead may all be waiting for the end of the freeze.
        if !cfg!(without_end_write) {
            self.slot().end_write();
        }
        // The work item cannot be pending: its owner would be the workqueue, not `self`. If it
        // were, the request would come back here and end with an error.
        let data = self.data();
        let queue = if self.is_swap_out() {
            &data.swap_queue
        } else {
            &data.queue
        };
        let queue = ptr::from_ref::<Queue>(queue);
        // SAFETY: The disk's data outlives its requests.
        if let Err(rq) = unsafe { &*queue }.enqueue(self) {
            rq.end(Err(EIO));
        }
    }

    /// Ends the request in its whole length. Any context.
    pub(crate) fn end(self, result: Result) {
        self.finish(status(result));
    }

    /// Ends the request where it was submitted, by interrupt if that is another CPU. Any context.
    pub(crate) fn complete(self, result: Result) {
        self.set_status(result);
        // SAFETY: By the type invariant. With fault injection the completion gets lost, as one of
        // hardware would, and the request stays with the block layer's timeout.
        if unsafe { bindings::kapi_blk_should_fake_timeout(self.queue()) } {
            let _ = self.into_raw();
            return;
        }
        let rq = self.into_raw();
        // SAFETY: Owned until now; `complete_callback` takes it up.
        unsafe { bindings::blk_mq_complete_request(rq.as_ptr()) };
    }

    /// Keeps what the request will end with.
    fn set_status(&self, result: Result) {
        // SAFETY: The request is owned by `self`, and no reference to the status exists.
        unsafe { *(*self.pdu().as_ptr()).status.get() = status(result) };
    }

    /// What [`Request::set_status`] has kept.
    fn status(&self) -> bindings::blk_status_t {
        // SAFETY: The request is owned by `self`.
        unsafe { *(*self.pdu().as_ptr()).status.get() }
    }

    /// Ends the first `done` bytes of a READ well, and the rest, zeroed, with `EIO`. Any context.
    pub(crate) fn end_short_read(self, done: u32) {
        // SAFETY: By the type invariant. `done` is below the length, so that the request lives on
        // with the bios that are left, whose memory is valid.
        unsafe {
            if done > 0 {
                bindings::blk_update_request(self.as_ptr(), bindings::BLK_STS_OK, done);
            }
            let mut bio = (*self.as_ptr()).bio;
            while !bio.is_null() {
                bindings::zero_fill_bio(bio);
                bio = (*bio).bi_next;
            }
        }
        self.finish(bindings::BLK_STS_IOERR);
    }

    /// Says in the queue's limits of the moment that there is no DISCARD, so that submitters fall
    /// back at once. The frozen update of all limits is the driver's.
    pub(crate) fn disable_discard(&self) {
        // SAFETY: By the type invariant; the wrapped inline is meant for the completion path.
        unsafe { bindings::kapi_blk_queue_disable_discard(self.queue()) };
    }

    /// The same for WRITE_ZEROES.
    pub(crate) fn disable_write_zeroes(&self) {
        // SAFETY: As above.
        unsafe { bindings::kapi_blk_queue_disable_write_zeroes(self.queue()) };
    }

    /// Ends the request with "not supported", with a line in the log if it is to be `logged`.
    pub(crate) fn end_unsupported(self, logged: bool) {
        if !logged {
            // SAFETY: By the type invariant.
            unsafe { (*self.as_ptr()).rq_flags |= bindings::RQF_QUIET };
        }
        self.finish(bindings::BLK_STS_NOTSUPP);
    }

    fn finish(self, status: bindings::blk_status_t) {
        trace::completing(&self, status);
        self.slot().release();
        let rq = self.into_raw();
        // SAFETY: Owned until now.
        unsafe { bindings::blk_mq_end_request(rq.as_ptr(), status) };
    }
}

impl<D: Driver> Drop for Request<D> {
    fn drop(&mut self) {
        self.slot().release();
        // SAFETY: By the type invariant; no one can reach the request after this.
        unsafe { bindings::blk_mq_end_request(self.as_ptr(), bindings::BLK_STS_IOERR) };
    }
}

/// The block status for a result. `EAGAIN` would make the submitter believe that waiting could
/// have helped it, so it becomes an I/O error.
fn status(result: Result) -> bindings::blk_status_t {
    match result {
        Ok(()) => bindings::BLK_STS_OK,
        Err(EAGAIN) => bindings::BLK_STS_IOERR,
        // SAFETY: A pure function of its argument.
        Err(err) => unsafe { bindings::errno_to_blk_status(err.to_errno()) },
    }
}

// SAFETY: `__enqueue` passes the pinned work item of a request that the caller owned; ownership
// goes to the workqueue exactly if the closure returns true.
unsafe impl<D: Driver> RawWorkItem<0> for Request<D> {
    type EnqueueOutput = Result<(), Self>;

    unsafe fn __enqueue<F>(self, queue_work_on: F) -> Self::EnqueueOutput
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        let rq = self.into_raw();
        // SAFETY: Owned until now.
        let this = unsafe { Self::from_raw(rq) };
        // SAFETY: The private data is valid.
        let work = unsafe { Work::raw_get(&raw const (*this.pdu().as_ptr()).work) };
        let rq = this.into_raw();
        if queue_work_on(work) {
            Ok(())
        } else {
            // SAFETY: Not queued, so still owned here.
            Err(unsafe { Self::from_raw(rq) })
        }
    }
}

// SAFETY: `run` is called with the work item that `__enqueue` passed, and takes the ownership that
// went with it.
unsafe impl<D: Driver> WorkItemPointer<0> for Request<D> {
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // CAST: `Work` is transparent.
        let work = work.cast::<Work<Pdu<D>>>();
        // SAFETY: The work item is the field of a `Pdu<D>`.
        let pdu = unsafe { kernel::container_of!(work, Pdu<D>, work) };
        // SAFETY: Every `Pdu<D>` lies behind its request; ownership comes from `__enqueue`.
        let rq = unsafe {
            let rq = bindings::blk_mq_rq_from_pdu(pdu.cast());
            Request::from_raw(NonNull::new_unchecked(rq))
        };
        <Pdu<D> as WorkItem>::run(rq);
    }
}

/// Requests of one queue that a task submits together, as an iterator over them.
///
/// Each is started as it is taken. What is left of several when this is dropped, blk-mq submits
/// again, one by one; a single one ends with `EIO`, as any [`Request`] that is dropped.
pub(crate) struct Batch<'a, D: Driver> {
    queue: *mut bindings::request_queue,
    requests: BatchRequests<'a, D>,
}

enum BatchRequests<'a, D: Driver> {
    /// From `queue_rq`.
    One(Option<Request<D>>),
    /// From `queue_rqs`: requests of `D` that the driver may take off the list.
    List(&'a mut bindings::rq_list),
}

impl<D: Driver> Batch<'_, D> {
    /// How many requests are left in it.
    pub(crate) fn len(&self) -> usize {
        match &self.requests {
            BatchRequests::One(rq) => usize::from(rq.is_some()),
            BatchRequests::List(list) => {
                // SAFETY: The requests on blk-mq's list are valid, and linked by `rq_next`.
                let next = |rq: &NonNull<bindings::request>| unsafe {
                    NonNull::new((*rq.as_ptr()).__bindgen_anon_1.rq_next)
                };
                core::iter::successors(NonNull::new(list.head), next).count()
            }
        }
    }

    /// How many requests of the hardware queue of the first one are under way besides those of the
    /// batch. Tags that a plug has taken for requests to come count as well.
    pub(crate) fn others_under_way(&self) -> usize {
        let first = match &self.requests {
            BatchRequests::One(rq) => rq.as_ref().map(Request::as_ptr),
            BatchRequests::List(list) => (!list.head.is_null()).then_some(list.head),
        };
        let Some(first) = first else { return 0 };
        // SAFETY: The request is valid, its hardware queue has tags, and these are never replaced.
        // Reads words that others change meanwhile: a guess at any time.
        let taken = unsafe {
            let tags = (*(*first).mq_hctx).tags;
            bindings::sbitmap_weight(&raw const (*tags).bitmap_tags.sb)
        };
        usize::try_from(taken).map_or(0, |taken| taken.saturating_sub(self.len()))
    }

    /// How many requests wait for the relay queue's worker to take them; outdated at any time.
    pub(crate) fn relay_backlog(&self) -> usize {
        self.data().relay.backlog()
    }

    fn data(&self) -> &DiskData<D> {
        // SAFETY: As in `queue_batch`, which this value does not outlive.
        unsafe { &*(*self.queue).queuedata.cast::<DiskData<D>>() }
    }

    /// Hands requests of the batch over to the disk's relay queue, a worker of which calls
    /// [`Driver::relay`] with them and with what others have handed over meanwhile.
    pub(crate) fn relay(&self, requests: RequestList<D>) {
        if requests.len() > 0 {
            self.data().relay.hand_over(requests);
        }
    }

    /// Whether the current task's plug may stand in the way of a try:
    ///
    /// - It holds requests, or tags for requests, of other queues, or something of a stacked
    ///   driver. A task that waits for one of those while the plug is detached waits for itself.
    /// - It is being flushed because it is full, by the submission of one bio more. That bio may be
    ///   for any queue, and is not in `multiple_queues` yet: with a batch of I/O on the loop device
    ///   and then on its file, the file system below submits it, and holds locks of the file.
    pub(crate) fn is_plugged_with_others(&self) -> bool {
        // SAFETY: The current task, its plug and its list of bios are its own. The plug's cached
        // requests are all of one queue.
        unsafe {
            let task = bindings::get_current();
            let plug = (*task).plug;
            if plug.is_null() {
                return false;
            }
            let cached = (*plug).cached_rqs.head;
            let callbacks = &raw const (*plug).cb_list;
            // A bio list tells of a submission, for which a flush is not the end of the plug.
            !(*task).bio_list.is_null()
                || (*plug).multiple_queues
                || (!cached.is_null() && (*cached).q != self.queue)
                || !ptr::eq((*callbacks).next, callbacks)
        }
    }
}

impl<D: Driver> Iterator for Batch<'_, D> {
    type Item = Request<D>;

    fn next(&mut self) -> Option<Request<D>> {
        match &mut self.requests {
            BatchRequests::One(rq) => rq.take(),
            BatchRequests::List(list) => {
                // SAFETY: The list is blk-mq's, to be taken from.
                let rq = NonNull::new(unsafe { bindings::kapi_rq_list_pop(*list) })?;
                // SAFETY: A request on the list is valid; taken off, it is the driver's.
                Some(unsafe { Request::start(rq) })
            }
        }
    }
}

/// Requests of one queue that this value owns, first in, first out. What is left when it is dropped ends
/// with `EIO`, as any [`Request`] that is dropped.
///
/// # Invariants
///
/// All requests of the list would do as a [`Request`], and nothing else owns them.
pub(crate) struct RequestList<D: Driver> {
    list: bindings::rq_list,
    len: usize,
    // It may move whatever `D` is.
    _p: PhantomData<NonNull<D>>,
}

// SAFETY: As of `Request`s.
unsafe impl<D: Driver> Send for RequestList<D> {}

impl<D: Driver> RequestList<D> {
    /// An empty one.
    pub(crate) fn new() -> Self {
        // INVARIANT: There are none.
        Self {
            list: pin_init::zeroed(),
            len: 0,
            _p: PhantomData,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a request at the end.
    pub(crate) fn push(&mut self, rq: Request<D>) {
        // INVARIANT: The request's ownership goes over to the list.
        let rq = rq.into_raw();
        // SAFETY: Owned until now, so that its link is free to be used.
        unsafe { bindings::kapi_rq_list_add_tail(&mut self.list, rq.as_ptr()) };
        self.len += 1;
    }

    /// Takes the first one off.
    pub(crate) fn pop(&mut self) -> Option<Request<D>> {
        // SAFETY: The list is this value's, and its requests are valid.
        let rq = NonNull::new(unsafe { bindings::kapi_rq_list_pop(&mut self.list) })?;
        self.len -= 1;
        // SAFETY: By the type invariant; it is not on the list any more.
        Some(unsafe { Request::from_raw(rq) })
    }

    /// Adds all of `other` at the end.
    pub(super) fn append(&mut self, mut other: Self) {
        while let Some(rq) = other.pop() {
            self.push(rq);
        }
    }

    /// The data of their disk, if there are any.
    pub(super) fn data(&self) -> Option<NonNull<DiskData<D>>> {
        let rq = NonNull::new(self.list.head)?;
        // SAFETY: By the type invariant the request is valid, and would do as a `Request`.
        let rq = mem::ManuallyDrop::new(unsafe { Request::<D>::from_raw(rq) });
        Some(NonNull::from(rq.data()))
    }
}

impl<D: Driver> Drop for RequestList<D> {
    fn drop(&mut self) {
        while let Some(rq) = self.pop() {
            drop(rq);
        }
    }
}

/// Requests that are ended together, each with its own result, when this is dropped.
pub(crate) struct EndingRequests<D: Driver>(RequestList<D>);

impl<D: Driver> EndingRequests<D> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(RequestList::new())
    }

    /// Adds a request that has come to its end with `result`.
    pub(crate) fn push(&mut self, rq: Request<D>, result: Result) {
        rq.set_status(result);
        self.0.push(rq);
    }
}

impl<D: Driver> Drop for EndingRequests<D> {
    fn drop(&mut self) {
        while let Some(rq) = self.0.pop() {
            let status = rq.status();
            rq.finish(status);
        }
    }
}

/// The tags and requests of one disk.
#[pin_data(PinnedDrop)]
pub(super) struct TagSet<D: Driver> {
    #[pin]
    inner: Opaque<bindings::blk_mq_tag_set>,
    /// What lockdep takes the set's SRCU, and two mutexes of the disk's queue, for. The block layer
    /// has one class for those of all sets and queues; but `queue_rq`, within the SRCU, may submit
    /// to a queue below, and whoever freezes that one may take the like of these mutexes, under
    /// which others wait for this SRCU. Below is not above, which lockdep cannot know.
    #[pin]
    srcu_class: LockClassKey,
    #[pin]
    elevator_class: LockClassKey,
    #[pin]
    rq_qos_class: LockClassKey,
    _p: PhantomData<D>,
}

// SAFETY: A tag set may be used and freed by any task.
unsafe impl<D: Driver> Send for TagSet<D> {}
// SAFETY: Its operations lock for themselves.
unsafe impl<D: Driver> Sync for TagSet<D> {}

impl<D: Driver> TagSet<D> {
    const OPS: bindings::blk_mq_ops = bindings::blk_mq_ops {
        queue_rq: Some(queue_rq_callback::<D>),
        queue_rqs: Some(queue_rqs_callback::<D>),
        complete: Some(complete_callback::<D>),
        init_request: Some(init_request_callback::<D>),
        exit_request: Some(exit_request_callback::<D>),
        ..NO_OPS
    };

    /// Allocates `nr_hw_queues` queues of `queue_depth` tags each, for requests that may sleep in
    /// `queue_rq`, with no I/O scheduler by default. Sleeps. `ENOMEM`, `EINVAL` for zeroes.
    pub(super) fn new(nr_hw_queues: u32, queue_depth: u32) -> impl PinInit<Self, Error> {
        // Requests end on a multiple of this, and the private data begins there.
        const { assert!(mem::align_of::<Pdu<D>>() <= mem::align_of::<bindings::request>()) };
        try_pin_init!(Self {
            srcu_class <- LockClassKey::new_dynamic(),
            elevator_class <- LockClassKey::new_dynamic(),
            rq_qos_class <- LockClassKey::new_dynamic(),
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::blk_mq_tag_set| {
                let flags = bindings::BLK_MQ_F_BLOCKING
                    | bindings::BLK_MQ_F_STACKING
                    | bindings::BLK_MQ_F_NO_SCHED_BY_DEFAULT;
                let mut set: bindings::blk_mq_tag_set = pin_init::zeroed();
                set.ops = &Self::OPS;
                set.nr_hw_queues = nr_hw_queues;
                set.queue_depth = queue_depth;
                set.numa_node = bindings::NUMA_NO_NODE;
                set.cmd_size = u32::try_from(mem::size_of::<Pdu<D>>())?;
                set.flags = flags;
                // SAFETY: `slot` is valid for writes and pinned.
                unsafe { slot.write(set) };
                // SAFETY: Filled in above.
                to_result(unsafe { bindings::blk_mq_alloc_tag_set(slot) })
            }),
            _: {
                // SAFETY: A blocking set has an SRCU of its own, which nobody has used yet. The key
                // is registered, and is dropped after the set is freed.
                unsafe {
                    bindings::kapi_srcu_set_lock_class((*inner.get()).srcu, srcu_class.as_ptr());
                }
            },
            _p: PhantomData,
        })
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::blk_mq_tag_set {
        self.inner.get()
    }

    /// Waits for dispatches that have begun to return from the driver. A request may end before the
    /// dispatch that it came by does, so that freezing the queue does not wait for that. Sleeps.
    pub(super) fn wait_for_dispatches(&self) {
        // SAFETY: Allocated by `new`; a blocking set has an SRCU domain, in which it dispatches.
        unsafe { bindings::kapi_synchronize_srcu_expedited((*self.as_ptr()).srcu) };
    }

    /// Has lockdep tell the queue's locks from those of others.
    ///
    /// # Safety
    ///
    /// `q` is the queue of a disk that uses this set and that nobody else knows of yet. The set is
    /// dropped only when that disk is deleted.
    pub(super) unsafe fn class_queue_locks(&self, q: *mut bindings::request_queue) {
        // SAFETY: By this function's contract nobody holds the locks, and the keys are registered.
        // Who looked the deleted disk up before may still take `rq_qos_mutex` when the keys are
        // dropped (`blkg_conf_open_bdev()`): lockdep, for which they are but addresses, reports it.
        unsafe {
            bindings::kapi_mutex_set_lock_class(
                &raw mut (*q).elevator_lock,
                self.elevator_class.as_ptr(),
            );
            bindings::kapi_mutex_set_lock_class(
                &raw mut (*q).rq_qos_mutex,
                self.rq_qos_class.as_ptr(),
            );
        }
    }
}

#[pinned_drop]
impl<D: Driver> PinnedDrop for TagSet<D> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Allocated by `new`; the disk that used it is gone.
        unsafe { bindings::blk_mq_free_tag_set(self.inner.get()) };
    }
}

/// No operation at all, to be completed by a struct update.
const NO_OPS: bindings::blk_mq_ops = bindings::blk_mq_ops {
    queue_rq: None,
    commit_rqs: None,
    queue_rqs: None,
    get_budget: None,
    put_budget: None,
    set_rq_budget_token: None,
    get_rq_budget_token: None,
    timeout: None,
    poll: None,
    complete: None,
    init_hctx: None,
    exit_hctx: None,
    init_request: None,
    exit_request: None,
    cleanup_rq: None,
    busy: None,
    map_queues: None,
    #[cfg(CONFIG_BLK_DEBUG_FS)]
    show_rq: None,
};

/// # Safety
///
/// Called by blk-mq for a queue of `D`, with a request that the driver owns from now on.
unsafe extern "C" fn queue_rq_callback<D: Driver>(
    _hctx: *mut bindings::blk_mq_hw_ctx,
    bd: *const bindings::blk_mq_queue_data,
) -> bindings::blk_status_t {
    // SAFETY: `bd` and its request are valid.
    let rq = unsafe { Request::<D>::start(NonNull::new_unchecked((*bd).rq)) };
    let queue = rq.queue();
    // SAFETY: A queue of `D`.
    unsafe { queue_batch(queue, BatchRequests::One(Some(rq))) };
    bindings::BLK_STS_OK
}

/// # Safety
///
/// Called by blk-mq with a list, not empty, of requests of one queue of `D`; the driver owns those
/// that it takes off. None of them is for an I/O scheduler.
unsafe extern "C" fn queue_rqs_callback<D: Driver>(list: *mut bindings::rq_list) {
    // SAFETY: By the safety requirement.
    unsafe {
        let list = &mut *list;
        queue_batch::<D>((*list.head).q, BatchRequests::List(list));
    }
}

/// # Safety
///
/// `queue` is a queue of `D`, and the requests are of it; called by blk-mq to submit them.
unsafe fn queue_batch<D: Driver>(
    queue: *mut bindings::request_queue,
    requests: BatchRequests<'_, D>,
) {
    // SAFETY: `queuedata` of a queue of `D` is its `DiskData<D>`. The submitter, or the dispatcher,
    // keeps the disk while it is in here, so that it is good even after all requests have ended.
    let data = unsafe { &*(*queue).queuedata.cast::<DiskData<D>>() };
    data.driver.queue(Batch { queue, requests });
}

/// # Safety
///
/// Called by blk-mq for a request of `D` that went through [`Request::complete`].
unsafe extern "C" fn complete_callback<D: Driver>(rq: *mut bindings::request) {
    // SAFETY: `Request::complete` gave its ownership to blk-mq, which passes it on, and has left
    // the status in the private data.
    let rq = unsafe { Request::<D>::from_raw(NonNull::new_unchecked(rq)) };
    let status = rq.status();
    rq.finish(status);
}

/// # Safety
///
/// Called by blk-mq once for each request of a tag set of `D` and each flush request of its queues.
unsafe extern "C" fn init_request_callback<D: Driver>(
    _set: *mut bindings::blk_mq_tag_set,
    rq: *mut bindings::request,
    _hctx: ffi::c_uint,
    _node: ffi::c_int,
) -> ffi::c_int {
    let init = pin_init!(Pdu::<D> {
        work <- new_work!("Request::work"),
        io <- IoSlot::new(),
        status: UnsafeCell::new(bindings::BLK_STS_OK),
        command: UnsafeCell::new(D::new_command()),
    });
    // SAFETY: Behind a request there is room for `cmd_size` bytes, suitably aligned (see
    // `TagSet::new`), and it does not move.
    match unsafe { init.__init(bindings::blk_mq_rq_to_pdu(rq).cast()) } {
        Ok(()) => 0,
    }
}

/// # Safety
///
/// Called by blk-mq once for each request that `init_request_callback` was called for, when it is
/// not in use any more.
unsafe extern "C" fn exit_request_callback<D: Driver>(
    _set: *mut bindings::blk_mq_tag_set,
    rq: *mut bindings::request,
    _hctx: ffi::c_uint,
) {
    // SAFETY: Made by `init_request_callback`; nothing uses it afterwards.
    unsafe { ptr::drop_in_place(bindings::blk_mq_rq_to_pdu(rq).cast::<Pdu<D>>()) };
}

/// The queue of a disk while no request exists on it, nor can enter. Allocations of this task do
/// no I/O meanwhile. Unfrozen when dropped.
pub(crate) struct FrozenQueue<'a, D: Driver> {
    disk: &'a GenDisk<D>,
    noio: u32,
    not_send: PhantomData<*mut ()>,
}

impl<D: Driver> GenDisk<D> {
    /// Waits until all requests have ended, and lets no new one in. Sleeps; the caller holds no
    /// lock that a request may need, and enters no file system until it unfreezes.
    pub(crate) fn freeze(&self) -> FrozenQueue<'_, D> {
        // SAFETY: The queue of a valid disk. The NOIO scope ends in `FrozenQueue::drop`, in the
        // same task: `FrozenQueue` is not `Send`.
        let noio = unsafe {
            let noio = bindings::kapi_memalloc_noio_save();
            bindings::blk_mq_freeze_queue_nomemsave(self.queue());
            noio
        };
        FrozenQueue {
            disk: self,
            noio,
            not_send: PhantomData,
        }
    }
}

impl<D: Driver> ClosedDisk<'_, D> {
    /// Takes the I/O state away, and returns it when no request uses it any more. Requests that come
    /// later find none. Sleeps; the caller holds no lock that a request may need, and enters no file
    /// system until this returns.
    ///
    /// Freezing the queue takes a grace period of RCU, some milliseconds. Nobody has the disk open,
    /// so that there is hardly ever a request to wait for, and then it is not needed.
    pub(crate) fn withdraw_io(&self) -> Option<KBox<D::Io>> {
        if self.may_have_requests() {
            return self.freeze().replace_io(None);
        }
        // Acquire for the contents of the value, which is dropped by the caller.
        let io = self.data().io.swap(ptr::null_mut(), Ordering::AcqRel);
        // A request that has seen the old value has done so in a dispatch, which ends before this
        // returns, and holds its tag for as long as it uses that.
        // SAFETY: A queue of `D` has a blocking tag set, which has an SRCU domain.
        unsafe { bindings::kapi_synchronize_srcu_expedited((*(*self.queue()).tag_set).srcu) };
        if self.may_have_requests() {
            drop(self.freeze());
        }
        // Pairs with the barrier before a tag is given back.
        fence(Ordering::Acquire);
        // SAFETY: A non-null value came from `KBox::into_raw`. Requests without a tag cannot have
        // it, and those with a tag have ended.
        (!io.is_null()).then(|| unsafe { KBox::from_raw(io) })
    }

    /// Whether a tag is taken. With an I/O scheduler requests wait without one: then always true.
    fn may_have_requests(&self) -> bool {
        // SAFETY: The queue of a valid disk and its tag set, whose sets of tags are changed by
        // nobody. A hardware queue that no CPU is mapped to has none (`blk_mq_map_swqueue()`).
        unsafe {
            let queue = self.queue();
            let set = (*queue).tag_set;
            let queues = (*set).nr_hw_queues as usize;
            !(*queue).elevator.is_null()
                || (0..queues).any(|i| {
                    let tags = *(*set).tags.add(i);
                    !tags.is_null()
                        && (bindings::sbitmap_any_bit_set(&raw const (*tags).bitmap_tags.sb)
                            || bindings::sbitmap_any_bit_set(&raw const (*tags).breserved_tags.sb))
                })
        }
    }
}

impl<D: Driver> FrozenQueue<'_, D> {
    /// Replaces the state that requests read; returns the old one.
    pub(crate) fn replace_io(&self, new: Option<KBox<D::Io>>) -> Option<KBox<D::Io>> {
        // SAFETY: The queue is frozen.
        unsafe { self.disk.data().swap_io(new) }
    }

    /// Puts new limits into force. `EINVAL` if they do not fit together.
    pub(crate) fn commit_limits(&self, limits: LimitsUpdate<'_, D>) -> Result {
        limits.commit()
    }
}

impl<D: Driver> Drop for FrozenQueue<'_, D> {
    fn drop(&mut self) {
        // SAFETY: Frozen by `GenDisk::freeze` in this task.
        unsafe {
            bindings::blk_mq_unfreeze_queue_nomemrestore(self.disk.queue());
            bindings::kapi_memalloc_noio_restore(self.noio);
        }
    }
}
