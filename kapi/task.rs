// SPDX-License-Identifier: GPL-2.0

//! What the current task carries into a file system, and scopes that change it for a call.
//!
//! C headers: [`include/linux/sched.h`](srctree/include/linux/sched.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h),
//! [`include/linux/blk-cgroup.h`](srctree/include/linux/blk-cgroup.h)

use super::bindings;
use core::{
    mem::MaybeUninit,
    ptr,
    sync::atomic::{compiler_fence, Ordering},
};
use kernel::ffi;

/// Most requests that are allocated together: `BLK_MAX_REQUEST_COUNT` of `block/blk.h`.
const MAX_PLUGGED: u16 = 32;

/// No limit: `RLIM_INFINITY` of `include/uapi/asm-generic/resource.h`, which bindgen cannot tell.
const RLIM_INFINITY: ffi::c_ulong = ffi::c_ulong::MAX;

/// Facts of the current task that decide whether it may enter a second file system.
#[derive(Clone, Copy)]
pub(crate) struct TaskContext {
    flags: u32,
    /// `current->journal_info` is set: the task is inside a file system's transaction.
    pub(crate) journal_info: bool,
    /// The task has a limit for the size of files (`RLIMIT_FSIZE`), which a file system holds
    /// against every file that the task writes to, by a signal too.
    pub(crate) file_size_limited: bool,
    /// Bytes of kernel stack below the caller's frame.
    pub(crate) stack_left: usize,
}

impl TaskContext {
    /// Reads the current task's. Any context; meaningful in process context only.
    pub(crate) fn current() -> Self {
        let marker = 0u8;
        // SAFETY: `get_current()` is always valid for the running code. The fields read are
        // written by the task itself only.
        let (task, flags, journal_info) = unsafe {
            let task = bindings::get_current();
            (task, (*task).flags, !(*task).journal_info.is_null())
        };
        // SAFETY: The signal structure of a running task is valid. Another task may change the
        // limit at any time (`prlimit()`); a word is read either way.
        let file_size_limit = unsafe {
            let limits = &raw const (*(*task).signal).rlim;
            (&raw const (*limits)[bindings::RLIMIT_FSIZE as usize].rlim_cur).read_volatile()
        };
        // SAFETY: `task` is the current task, whose stack exists.
        let stack = unsafe { bindings::kapi_task_stack_page(task) };
        Self {
            flags,
            journal_info,
            file_size_limited: file_size_limit != RLIM_INFINITY,
            stack_left: ptr::from_ref(&marker).addr().saturating_sub(stack.addr()),
        }
    }

    /// In a scope where reclaim must not enter file systems (every transaction is one).
    pub(crate) fn nofs(&self) -> bool {
        self.flags & bindings::PF_MEMALLOC_NOFS != 0
    }

    /// In a scope where reclaim must not start I/O.
    pub(crate) fn noio(&self) -> bool {
        self.flags & bindings::PF_MEMALLOC_NOIO != 0
    }

    /// The task reclaims memory, or may use the reserves to free some.
    pub(crate) fn memalloc(&self) -> bool {
        self.flags & bindings::PF_MEMALLOC != 0
    }

    /// A workqueue worker: its other items wait for this one, or for its rescuer.
    pub(crate) fn workqueue_worker(&self) -> bool {
        self.flags & bindings::PF_WQ_WORKER != 0
    }
}

/// Whether the current task has `CAP_SYS_ADMIN`.
pub(crate) fn is_system_administrator() -> bool {
    // SAFETY: A check of the current credentials.
    i32::try_from(bindings::CAP_SYS_ADMIN).is_ok_and(|cap| unsafe { bindings::capable(cap) })
}

/// Size of a kernel stack in bytes.
pub(crate) const STACK_SIZE: usize = bindings::KERNEL_STACK_SIZE as usize;

/// Whether more than one CPU is online; outdated at any time. Any context.
pub(crate) fn several_cpus_online() -> bool {
    // SAFETY: Reads a number that is atomic, or a constant.
    unsafe { bindings::kapi_num_online_cpus() > 1 }
}

/// Whether a freezer is at work: the system suspends, or a cgroup of version 1 is frozen.
///
/// A freezable workqueue stands still then, and code that wants to keep its promises must not go
/// past it.
pub(crate) fn freezer_active() -> bool {
    // SAFETY: Reads the count of a static key of the kernel, which is atomic.
    unsafe { bindings::kapi_freezer_active() }
}

/// Leaves the current plug for the time that [`detach_plug`]'s result is not put back.
///
/// A time stamp cached in the plug is invalidated: `PF_BLOCK_TS` says that `current->plug` has
/// one, and the scheduler would write through `current->plug` if it stayed set while that is null.
///
/// # Safety
///
/// `task` is the current task, and the caller puts the result back before it returns.
unsafe fn detach_plug(task: *mut bindings::task_struct) -> *mut bindings::blk_plug {
    // SAFETY: The task is the current one; these fields are its own. The flag is cleared first, so
    // that a switch to another task in between finds nothing to invalidate.
    unsafe {
        let plug = (*task).plug;
        if (*task).flags & bindings::PF_BLOCK_TS != 0 && !cfg!(without_block_ts) {
            (*task).flags &= !bindings::PF_BLOCK_TS;
            if !plug.is_null() {
                (*plug).cur_ktime = 0;
            }
        }
        // The switch happens on this CPU, so that only the compiler has to keep the order.
        compiler_fence(Ordering::SeqCst);
        (*task).plug = ptr::null_mut();
        plug
    }
}

/// Calls `f` as if from a fresh task as far as the block layer and reclaim are concerned: with an
/// empty bio list, a plug of its own and a NOIO scope, all put back afterwards.
///
/// - `current->bio_list`: bios submitted below would otherwise be parked behind the caller's and
///   a wait for one of them would never end.
/// - `current->plug`: the caller's may be in the middle of a flush.
/// - NOIO: allocations below must not wait for I/O that may have to pass through the caller.
///
/// `bios` is how many `f` is likely to submit: one goes out at once; for several the plug is made,
/// and the requests for them are allocated together, as `io_uring` does it. What is left of those is
/// given back at the end, or when the task sleeps. Bios plugged by `f` are issued before this returns.
/// Process context; sleeps if `f` does.
pub(crate) fn with_detached_submission<R>(bios: usize, f: impl FnOnce() -> R) -> R {
    let mut plug = MaybeUninit::<bindings::blk_plug>::uninit();

    // SAFETY: The current task outlives this call, and everything taken out of it is put back by
    // the block below, in the reverse order.
    let (task, saved_plug, saved_bio_list, saved_flags) = unsafe {
        let task = bindings::get_current();
        let saved_plug = if cfg!(without_own_plug) {
            ptr::null_mut()
        } else {
            detach_plug(task)
        };
        if cfg!(without_no_switch) {
            // Nothing keeps another task from running here; seldom does one.
            bindings::schedule_timeout_uninterruptible(1);
        }
        let saved_bio_list = (*task).bio_list;
        if !cfg!(without_bio_list) {
            (*task).bio_list = ptr::null_mut();
        }
        let saved_flags = bindings::kapi_memalloc_noio_save();
        // `current->plug` is null now, so that this takes effect. `plug` stays where it is until
        // the block below has finished it. `nr_ios` is what `blk_start_plug_nr_ios()` would set.
        if bios > 1 {
            bindings::blk_start_plug(plug.as_mut_ptr());
            (*plug.as_mut_ptr()).nr_ios =
                u16::try_from(bios).map_or(MAX_PLUGGED, |bios| bios.min(MAX_PLUGGED));
        }
        (task, saved_plug, saved_bio_list, saved_flags)
    };

    let result = f();

    // SAFETY: `task` is still the current task; `plug` is the one started above, and has not moved.
    unsafe {
        if bios > 1 {
            bindings::blk_finish_plug(plug.as_mut_ptr());
        }
        bindings::kapi_memalloc_noio_restore(saved_flags);
        (*task).bio_list = saved_bio_list;
        // The private plug is gone; a time stamp taken since belongs to no plug.
        if !cfg!(without_own_plug) {
            let _ = detach_plug(task);
            (*task).plug = saved_plug;
        }
    }
    result
}

/// The cgroups that a piece of work done for someone else is charged to.
pub(crate) struct Charge {
    pub(super) blkcg: *mut bindings::cgroup_subsys_state,
}

/// Calls `f` in a worker on behalf of the owner of `charge`: I/O goes to its blkcg, page cache to
/// its memory cgroup, without dirty throttling by the device that the caller itself serves
/// (`PF_LOCAL_THROTTLE`), and with no I/O started by reclaim.
///
/// Workqueue workers only: `kthread_associate_blkcg()` wants a kthread. Sleeps if `f` does.
pub(crate) fn with_charge<R>(charge: Charge, f: impl FnOnce() -> R) -> R {
    const FLAGS: u32 = bindings::PF_LOCAL_THROTTLE | bindings::PF_MEMALLOC_NOIO;

    // SAFETY: The current task's flags are its own.
    let (task, had) = unsafe {
        let task = bindings::get_current();
        let had = (*task).flags & FLAGS;
        (*task).flags |= FLAGS;
        (task, had)
    };
    let mut memcg_css = ptr::null_mut();
    let mut saved_memcg = ptr::null_mut();
    if !charge.blkcg.is_null() {
        // SAFETY: `charge` comes from a request that is not completed, whose bio holds the blkg
        // and so the css; `kthread_associate_blkcg()` and `kapi_memcg_get_e_css()` take references
        // of their own, given back below.
        unsafe {
            bindings::kthread_associate_blkcg(charge.blkcg);
            memcg_css = bindings::kapi_memcg_get_e_css(charge.blkcg);
            if !memcg_css.is_null() {
                saved_memcg =
                    bindings::kapi_set_active_memcg(bindings::kapi_mem_cgroup_from_css(memcg_css));
            }
        }
    }

    let result = f();

    // SAFETY: Undoes exactly what was done above, in the same task.
    unsafe {
        if !charge.blkcg.is_null() {
            bindings::kthread_associate_blkcg(ptr::null_mut());
            if !memcg_css.is_null() {
                bindings::kapi_set_active_memcg(saved_memcg);
                bindings::kapi_css_put(memcg_css);
            }
        }
        (*task).flags = ((*task).flags & !FLAGS) | had;
    }
    result
}
