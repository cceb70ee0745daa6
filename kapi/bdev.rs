// SPDX-License-Identifier: GPL-2.0

//! Block devices that someone else holds open, claims, and majors.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use super::{bindings, blk_mq::Driver, gendisk::GenDisk};
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{error::to_result, ffi, prelude::*, sync::Arc, types::ForeignOwnable};

/// How a block device was opened.
#[derive(Clone, Copy)]
pub(crate) struct OpenMode(pub(super) bindings::blk_mode_t);

impl OpenMode {
    /// For writing.
    pub(crate) fn is_write(self) -> bool {
        self.0 & bindings::BLK_OPEN_WRITE != 0
    }

    /// Exclusively.
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & bindings::BLK_OPEN_EXCL != 0
    }
}

/// A block device (a whole disk or a partition) that stays open for `'a`.
///
/// # Invariants
///
/// The pointer is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct BlockDevice<'a>(NonNull<bindings::block_device>, PhantomData<&'a ()>);

impl<'a> BlockDevice<'a> {
    /// # Safety
    ///
    /// `ptr` is a block device that stays open for `'a`.
    pub(super) unsafe fn from_raw(ptr: NonNull<bindings::block_device>) -> Self {
        // INVARIANT: By the safety requirement.
        Self(ptr, PhantomData)
    }

    fn as_ptr(&self) -> *mut bindings::block_device {
        self.0.as_ptr()
    }

    /// Smallest unit of I/O in bytes.
    pub(crate) fn logical_block_size(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_bdev_logical_block_size(self.as_ptr()) }
    }

    /// Alignment of memory for I/O in bytes, less one.
    pub(crate) fn dma_alignment_mask(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_bdev_dma_alignment(self.as_ptr()) }
    }

    /// Most sectors of one WRITE_ZEROES; 0 if there is none.
    pub(crate) fn write_zeroes_sectors(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_bdev_write_zeroes_sectors(self.as_ptr()) }
    }

    /// Granularity of DISCARD in bytes.
    pub(crate) fn discard_granularity(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_bdev_discard_granularity(self.as_ptr()) }
    }

    /// Seeks cost time.
    pub(crate) fn is_rotational(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_bdev_rot(self.as_ptr()) }
    }

    /// The disk, if `D` drives it.
    pub(crate) fn disk_of<D: Driver>(&self) -> Option<&'a GenDisk<D>> {
        // SAFETY: By the type invariant; an open device keeps its disk.
        unsafe { GenDisk::from_raw_checked((*self.as_ptr()).bd_disk) }
    }

    /// Claims the device for exclusive use for the time of a change, unless `mode` says that the
    /// caller has it to itself already. `EBUSY` if someone else has. Sleeps.
    pub(crate) fn claim(&self, mode: OpenMode) -> Result<Claim<'a>> {
        let holder = if mode.is_exclusive() {
            ptr::null_mut()
        } else {
            // The address of a static names the holder.
            static HOLDER: u8 = 0;
            let holder = (&raw const HOLDER).cast_mut().cast::<ffi::c_void>();
            // SAFETY: By the type invariant; no holder operations.
            to_result(unsafe {
                bindings::bd_prepare_to_claim(self.as_ptr(), holder, ptr::null())
            })?;
            holder
        };
        Ok(Claim {
            bdev: *self,
            holder,
        })
    }
}

/// A claim of [`BlockDevice::claim`]; given up when dropped.
pub(crate) struct Claim<'a> {
    bdev: BlockDevice<'a>,
    holder: *mut ffi::c_void,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.holder.is_null() {
            // SAFETY: Claimed by `claim` with this holder and not given up since.
            unsafe { bindings::bd_abort_claiming(self.bdev.as_ptr(), self.holder) };
        }
    }
}

/// Where the block layer's probe callback, which has no argument for it, finds its data.
///
/// # Invariants
///
/// Null, or from `Arc::<T>::into_foreign`.
pub(crate) struct ProbeSlot<T>(AtomicPtr<ffi::c_void>, PhantomData<T>);

// SAFETY: Access is through an atomic pointer to a `T` that is `Sync`.
unsafe impl<T: Send + Sync> Sync for ProbeSlot<T> {}

impl<T> ProbeSlot<T> {
    /// An empty slot; probes do nothing.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }
}

/// Reacts to the opening of a device node whose minor nothing serves.
pub(crate) trait Probe: Send + Sync + Sized + 'static {
    /// The static that belongs to this type.
    fn slot() -> &'static ProbeSlot<Self>;

    /// May create the disk of `minor`. Sleeps; called with the block layer's table of majors
    /// locked.
    fn probe(&self, minor: u32);
}

/// A registered block major with on-demand creation by `T`.
///
/// # Invariants
///
/// The major is registered, and `T::slot()` holds a reference of an `Arc<T>`.
pub(crate) struct Major<T: Probe> {
    major: u32,
    name: &'static CStr,
    _p: PhantomData<T>,
}

impl<T: Probe> Major<T> {
    /// Registers `major` as `name` in /proc/devices. Sleeps. `EBUSY` if it is taken.
    pub(crate) fn register(major: u32, name: &'static CStr, data: Arc<T>) -> Result<Self> {
        let data = data.into_foreign();
        if T::slot()
            .0
            .compare_exchange(ptr::null_mut(), data, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            // SAFETY: From `into_foreign` above.
            drop(unsafe { Arc::<T>::from_foreign(data) });
            return Err(EBUSY);
        }
        // INVARIANT: The slot was filled, and the registration succeeds or is undone right below
        // by the drop of `this`, which gives up a major only if it was registered.
        // SAFETY: `name` is static, `probe_callback` has the right type.
        let ret = unsafe {
            bindings::__register_blkdev(major, name.as_char_ptr(), Some(probe_callback::<T>))
        };
        if let Err(err) = to_result(ret) {
            Self::empty_slot();
            return Err(err);
        }
        Ok(Self {
            major,
            name,
            _p: PhantomData,
        })
    }

    fn empty_slot() {
        let data = T::slot().0.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: From `into_foreign` in `register`; the swap makes this the only owner.
        drop(unsafe { Arc::<T>::from_foreign(data) });
    }
}

impl<T: Probe> Drop for Major<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Waits for a running probe: both hold the lock of the
        // table of majors.
        unsafe { bindings::unregister_blkdev(self.major, self.name.as_char_ptr()) };
        Self::empty_slot();
    }
}

/// # Safety
///
/// Called by the block layer for a registered [`Major<T>`] only.
unsafe extern "C" fn probe_callback<T: Probe>(dev: bindings::dev_t) {
    let data = T::slot().0.load(Ordering::Acquire);
    if data.is_null() {
        return;
    }
    // SAFETY: The slot is emptied only after `unregister_blkdev()`, which excludes this callback.
    let data = unsafe { Arc::<T>::borrow(data) };
    data.probe(dev & ((1 << bindings::MINORBITS) - 1));
}
