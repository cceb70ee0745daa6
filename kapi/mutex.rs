// SPDX-License-Identifier: GPL-2.0

//! A mutex whose waiters can be killed.
//!
//! C header: [`include/linux/mutex.h`](srctree/include/linux/mutex.h)

use super::bindings;
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    pin::Pin,
};
use kernel::{error::to_result, prelude::*, sync::LockClassKey, types::Opaque};

/// A `struct mutex` around data, locked by `mutex_lock_killable()` where the caller acts for a
/// user who may want to give up, and by `mutex_lock()` where it must go on.
///
/// The kernel crate's `Mutex` has no killable form in 7.3.
#[pin_data]
pub(crate) struct KillableMutex<T> {
    #[pin]
    lock: Opaque<bindings::mutex>,
    data: UnsafeCell<T>,
}

// SAFETY: The data moves between tasks only under the lock.
unsafe impl<T: Send> Send for KillableMutex<T> {}
// SAFETY: Shared access gives `&mut T` to one task at a time, so `T: Send` suffices.
unsafe impl<T: Send> Sync for KillableMutex<T> {}

impl<T> KillableMutex<T> {
    /// Creates a mutex with a lock class of the caller's; see `new_killable_mutex!`.
    pub(crate) fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            lock <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes and pinned; `name` and `key` are static.
                unsafe { bindings::__mutex_init(slot, name.as_char_ptr(), key.as_ptr()) }
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Locks. Sleeps; not interruptible.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: The mutex was initialised by `new`. Sleeping is allowed where `Guard`s are
        // taken: all callers are in process context.
        unsafe { bindings::mutex_lock(self.lock.get()) };
        Guard {
            mutex: self,
            not_send: PhantomData,
        }
    }

    /// Locks, or fails with `EINTR` when a fatal signal arrives first. Sleeps.
    pub(crate) fn lock_killable(&self) -> Result<Guard<'_, T>> {
        // SAFETY: As in `lock`.
        to_result(unsafe { bindings::kapi_mutex_lock_killable(self.lock.get()) })?;
        Ok(Guard {
            mutex: self,
            not_send: PhantomData,
        })
    }
}

/// A locked [`KillableMutex`]; unlocks when dropped, by the task that locked it.
#[must_use]
pub(crate) struct Guard<'a, T> {
    mutex: &'a KillableMutex<T>,
    not_send: PhantomData<*mut ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The guard holds the lock.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The guard holds the lock.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The guard holds the lock, and was made by this task: it is not `Send`.
        unsafe { bindings::mutex_unlock(self.mutex.lock.get()) };
    }
}

/// Makes a [`KillableMutex`] with the lock class of this place and the given name.
macro_rules! new_killable_mutex {
    ($data:expr, $name:literal) => {
        $crate::kapi::mutex::KillableMutex::new($data, $name, ::kernel::static_lock_class!())
    };
}
pub(crate) use new_killable_mutex;
