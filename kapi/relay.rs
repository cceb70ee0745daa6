// SPDX-License-Identifier: GPL-2.0

//! Requests of a disk on their way to one worker, which takes all that have come.

use super::{
    bindings,
    blk_mq::{Driver, RequestList},
    workqueue::OwnedQueue,
};
use core::{
    mem,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use kernel::{
    impl_has_delayed_work, impl_has_work, new_delayed_work, new_spinlock, new_work,
    prelude::*,
    sync::SpinLock,
    time::Jiffies,
    workqueue::{
        DelayedWork, HasWork, RawDelayedWorkItem, RawWorkItem, Work, WorkItem, WorkItemPointer,
    },
};

/// What a queue has to allow to be active: of each of the two items, one at work and one that waits for
/// its end, being queued anew. The latter counts too.
pub(crate) const MAX_ACTIVE: i32 = 4;

/// How long the requests that were left by [`RelayedRequests::step_aside`] wait for its return: one
/// tick at least.
const PATIENCE: Jiffies = 2;

/// The work item that takes requests as they come.
const COME: u64 = 0;
/// The work item that takes them while that one is aside for too long.
const LEFT: u64 = 1;

/// A list of requests and the work items that take them from there.
#[pin_data(PinnedDrop)]
pub(super) struct Relay<D: Driver> {
    /// The first field, so that it is dropped, hence flushed, before the rest.
    queue: OwnedQueue,
    #[pin]
    come: Work<Relay<D>, COME>,
    #[pin]
    left: DelayedWork<Relay<D>, LEFT>,
    /// Taken in process context only, and held for a few instructions.
    #[pin]
    list: SpinLock<RequestList<D>>,
    /// Length of `list`; written with the lock held.
    backlog: AtomicUsize,
    /// The item `COME` is in [`RelayedRequests::step_aside`].
    aside: AtomicBool,
    /// And longer than [`PATIENCE`].
    stuck: AtomicBool,
}

impl_has_work! {
    impl{D: Driver} HasWork<Relay<D>, 0> for Relay<D> { self.come }
}

impl_has_delayed_work! {
    impl{D: Driver} HasDelayedWork<Relay<D>, 1> for Relay<D> { self.left }
}

impl<D: Driver> Relay<D> {
    /// One that works on `queue`, which nothing else uses; [`MAX_ACTIVE`] of it are needed.
    pub(super) fn new(queue: OwnedQueue) -> impl PinInit<Self> {
        pin_init!(Self {
            queue,
            come <- new_work!("Relay::come"),
            left <- new_delayed_work!("Relay::left"),
            list <- new_spinlock!(RequestList::new(), "Relay::list"),
            backlog: AtomicUsize::new(0),
            aside: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        })
    }

    /// Length of the list, or [`usize::MAX`] if the worker that should take it sleeps; outdated at any
    /// time.
    pub(super) fn backlog(&self) -> usize {
        if self.stuck.load(Ordering::Relaxed) {
            usize::MAX
        } else {
            self.backlog.load(Ordering::Relaxed)
        }
    }

    /// Appends `requests` to the list, and sees to it that a worker takes them. Process context.
    pub(super) fn hand_over(&self, requests: RequestList<D>) {
        self.edit(|list| list.append(requests));
        // If `COME` is aside, it takes the list when it is back, or else `LEFT` does. Who sees it aside
        // has appended before it took the list: both do so with the lock held.
        if self.aside.load(Ordering::Relaxed) {
            self.enqueue_left();
        } else {
            // If the item is pending, it has yet to take the list; while it runs, it is queued anew.
            self.queue.enqueue::<_, COME>(RelayRef(NonNull::from(self)));
        }
    }

    fn enqueue_left(&self) {
        // If it is pending, so much the sooner.
        self.queue
            .enqueue_delayed::<_, LEFT>(RelayRef(NonNull::from(self)), PATIENCE);
    }

    fn edit(&self, f: impl FnOnce(&mut RequestList<D>)) {
        let mut list = self.list.lock();
        f(&mut list);
        self.backlog.store(list.len(), Ordering::Relaxed);
    }

    fn take(&self) -> RequestList<D> {
        let mut taken = RequestList::new();
        self.edit(|list| mem::swap(list, &mut taken));
        taken
    }

    fn run(&self, item: u64) {
        let requests = self.take();
        if let Some(data) = requests.data() {
            let requests = RelayedRequests {
                relay: self,
                requests,
                item,
            };
            // SAFETY: The data of a disk drops its relay first, which waits for this item, so that
            // the rest of it outlives this call even if the requests do not.
            unsafe { data.as_ref() }.driver.relay(requests);
        }
    }
}

#[pinned_drop]
impl<D: Driver> PinnedDrop for Relay<D> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The work item was made by `new`. Nothing queues it any more: who does so owns a
        // request of the disk, of which there is none. Sleeps, and does not run in this item.
        unsafe {
            let work = DelayedWork::raw_as_work(&raw const self.left);
            // CAST: `Work` is transparent.
            let work = work.cast::<bindings::work_struct>();
            bindings::cancel_delayed_work_sync(kernel::container_of!(
                work,
                bindings::delayed_work,
                work
            ));
        }
    }
}

/// Requests that were relayed to a worker, as an iterator over them. What is left when it is dropped
/// ends with `EIO`, as any request that is dropped.
pub(crate) struct RelayedRequests<'a, D: Driver> {
    relay: &'a Relay<D>,
    requests: RequestList<D>,
    /// Which work item this is.
    item: u64,
}

impl<D: Driver> RelayedRequests<'_, D> {
    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Calls `f`, which may sleep for long: another worker goes on with the requests that are left,
    /// and with those that come, if it takes more than a tick or two. What is there afterwards is
    /// this one's again. None, without a call, if that other worker is this one.
    ///
    /// The caller owns a request of the disk.
    pub(crate) fn step_aside<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        if self.item != COME {
            return None;
        }
        let relay = self.relay;
        relay.edit(|list| {
            relay.aside.store(true, Ordering::Relaxed);
            // They have come first.
            mem::swap(list, &mut self.requests);
            list.append(mem::replace(&mut self.requests, RequestList::new()));
        });
        relay.enqueue_left();
        let result = f();
        relay.edit(|list| {
            relay.aside.store(false, Ordering::Relaxed);
            relay.stuck.store(false, Ordering::Relaxed);
            mem::swap(list, &mut self.requests);
        });
        Some(result)
    }
}

impl<D: Driver> Iterator for RelayedRequests<'_, D> {
    type Item = super::blk_mq::Request<D>;

    fn next(&mut self) -> Option<Self::Item> {
        self.requests.pop()
    }
}

/// What the workqueue has of a relay while a work item is queued.
pub(super) struct RelayRef<D: Driver>(NonNull<Relay<D>>);

// SAFETY: A relay may be worked on by any task.
unsafe impl<D: Driver> Send for RelayRef<D> {}

impl<D: Driver> WorkItem<COME> for Relay<D> {
    type Pointer = RelayRef<D>;

    fn run(RelayRef(relay): RelayRef<D>) {
        // SAFETY: This runs in an item of the queue, which the relay drops first, and waits for.
        unsafe { relay.as_ref() }.run(COME);
    }
}

impl<D: Driver> WorkItem<LEFT> for Relay<D> {
    type Pointer = RelayRef<D>;

    fn run(RelayRef(relay): RelayRef<D>) {
        // SAFETY: As above; what is pending by then, the relay cancels before that.
        let relay = unsafe { relay.as_ref() };
        relay.edit(|_| {
            let aside = relay.aside.load(Ordering::Relaxed);
            relay.stuck.store(aside, Ordering::Relaxed);
        });
        relay.run(LEFT);
    }
}

// SAFETY: The work item is pinned with the relay, which stays until the queue is drained.
unsafe impl<D: Driver> RawWorkItem<COME> for RelayRef<D> {
    /// Whether it was queued; else it is pending.
    type EnqueueOutput = bool;

    unsafe fn __enqueue<F>(self, queue_work_on: F) -> bool
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The relay is valid: the caller has just borrowed it.
        queue_work_on(unsafe { Work::raw_get(&raw const (*self.0.as_ptr()).come) })
    }
}

// SAFETY: The work item is pinned with the relay, which cancels it when it is dropped.
unsafe impl<D: Driver> RawWorkItem<LEFT> for RelayRef<D> {
    /// Whether it was queued; else it is pending.
    type EnqueueOutput = bool;

    unsafe fn __enqueue<F>(self, queue_work_on: F) -> bool
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The relay is valid: the caller has just borrowed it.
        queue_work_on(unsafe {
            Work::raw_get(DelayedWork::raw_as_work(&raw const (*self.0.as_ptr()).left))
        })
    }
}

// SAFETY: The work item is that of a `delayed_work`.
unsafe impl<D: Driver> RawDelayedWorkItem<LEFT> for RelayRef<D> {}

// SAFETY: `run` is called with the work item that `__enqueue` passed.
unsafe impl<D: Driver> WorkItemPointer<COME> for RelayRef<D> {
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: The work item is that field of a `Relay<D>`. CAST: `Work` is transparent.
        let relay = unsafe {
            NonNull::new_unchecked(<Relay<D> as HasWork<_, COME>>::work_container_of(
                work.cast(),
            ))
        };
        <Relay<D> as WorkItem<COME>>::run(RelayRef(relay));
    }
}

// SAFETY: As above.
unsafe impl<D: Driver> WorkItemPointer<LEFT> for RelayRef<D> {
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: As above.
        let relay = unsafe {
            NonNull::new_unchecked(<Relay<D> as HasWork<_, LEFT>>::work_container_of(
                work.cast(),
            ))
        };
        <Relay<D> as WorkItem<LEFT>>::run(RelayRef(relay));
    }
}
