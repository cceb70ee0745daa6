// SPDX-License-Identifier: GPL-2.0

//! Workqueues of one's own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use super::bindings;
use core::{ops::Deref, ptr::NonNull};
use kernel::{prelude::*, workqueue::Queue};

/// A freezable workqueue that this value owns.
///
/// # Invariants
///
/// The pointer is a workqueue from `alloc_workqueue()` that nothing else destroys.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed from any task.
unsafe impl Send for OwnedQueue {}
// SAFETY: All operations on a workqueue lock for themselves.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Allocates `<prefix><number>` with at most `max_active` items running per CPU. Sleeps.
    ///
    /// Freezable: items wait while the system suspends, so that nothing is written after a
    /// hibernation image was taken. Per-CPU: an item runs where it was queued.
    ///
    /// Fails with `ENOMEM`.
    pub(crate) fn new_percpu_freezable(
        format: &'static CStr,
        number: u32,
        max_active: i32,
    ) -> Result<Self> {
        Self::new_freezable(format, number, max_active, bindings::wq_flags_WQ_PERCPU)
    }

    /// The same, but the scheduler chooses the CPU for an item, and `max_active` is for all of them.
    pub(crate) fn new_unbound_freezable(
        format: &'static CStr,
        number: u32,
        max_active: i32,
    ) -> Result<Self> {
        Self::new_freezable(format, number, max_active, bindings::wq_flags_WQ_UNBOUND)
    }

    fn new_freezable(
        format: &'static CStr,
        number: u32,
        max_active: i32,
        flags: bindings::wq_flags,
    ) -> Result<Self> {
        // SAFETY: `format` is a NUL-terminated string with one `%u`, for which `number` is given.
        // The function sleeps; callers are in process context.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                format.as_char_ptr(),
                flags | bindings::wq_flags_WQ_FREEZABLE,
                max_active,
                number,
            )
        };
        // INVARIANT: Allocated just now.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue is valid as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant no one else destroys it. Waits for running items, so it
        // sleeps and must not run in one of them.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
