// SPDX-License-Identifier: GPL-2.0

//! Atomic updates of queue limits.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use super::{bindings, blk_mq::Driver, gendisk::GenDisk};
use core::mem::{self, MaybeUninit};
use kernel::{error::to_result, prelude::*};

/// A copy of a queue's limits that is being changed under the limits lock. Dropped without a
/// commit, it changes nothing.
pub(crate) struct LimitsUpdate<'a, D: Driver> {
    disk: &'a GenDisk<D>,
    limits: bindings::queue_limits,
}

impl<D: Driver> GenDisk<D> {
    /// Locks the limits and copies them. Sleeps. Taken before the queue is frozen.
    pub(crate) fn update_limits(&self) -> LimitsUpdate<'_, D> {
        let mut limits = MaybeUninit::uninit();
        // SAFETY: The queue of a valid disk; the function fills `limits` in.
        let limits = unsafe {
            bindings::kapi_queue_limits_start_update(self.queue(), limits.as_mut_ptr());
            limits.assume_init()
        };
        LimitsUpdate { disk: self, limits }
    }

    /// Smallest unit of I/O in bytes.
    pub(crate) fn logical_block_size(&self) -> u32 {
        // SAFETY: The queue of a valid disk; a plain word.
        unsafe { (*self.queue()).limits.logical_block_size }
    }
}

impl<D: Driver> LimitsUpdate<'_, D> {
    /// Sets logical and physical block size and minimum I/O size, all in bytes.
    pub(crate) fn set_block_size(&mut self, bytes: u32) -> &mut Self {
        self.limits.logical_block_size = bytes;
        self.limits.physical_block_size = bytes;
        self.limits.io_min = bytes;
        self
    }

    /// Sets the alignment of memory for I/O in bytes, less one.
    pub(crate) fn set_dma_alignment_mask(&mut self, mask: u32) -> &mut Self {
        self.limits.dma_alignment = mask;
        self
    }

    /// Says whether a FLUSH is needed for written data to be safe.
    pub(crate) fn set_write_cache(&mut self, on: bool) -> &mut Self {
        self.set_feature(bindings::BLK_FEAT_WRITE_CACHE, on)
    }

    /// Says whether seeks cost time.
    pub(crate) fn set_rotational(&mut self, on: bool) -> &mut Self {
        self.set_feature(bindings::BLK_FEAT_ROTATIONAL, on)
    }

    fn set_feature(&mut self, feature: u32, on: bool) -> &mut Self {
        if on {
            self.limits.features |= feature;
        } else {
            self.limits.features &= !feature;
        }
        self
    }

    /// Sets the most sectors of 512 bytes of one DISCARD, and its granularity in bytes; none at
    /// all if `sectors` is 0.
    pub(crate) fn set_discard(&mut self, sectors: u32, granularity: u32) -> &mut Self {
        self.limits.max_hw_discard_sectors = sectors;
        self.limits.discard_granularity = if sectors > 0 { granularity } else { 0 };
        self
    }

    /// Sets the most sectors of 512 bytes of one WRITE_ZEROES; none at all if 0.
    pub(crate) fn set_write_zeroes(&mut self, sectors: u32) -> &mut Self {
        self.limits.max_write_zeroes_sectors = sectors;
        self
    }

    /// Puts the limits into force on a queue with no request: one that is frozen
    /// (`FrozenQueue::commit_limits`), or whose disk has no capacity, so that requests fail.
    /// `EINVAL` if they do not fit together; nothing has changed then.
    pub(crate) fn commit(mut self) -> Result {
        // SAFETY: Started by `update_limits`; the lock is given back in any case.
        let ret =
            unsafe { bindings::queue_limits_commit_update(self.disk.queue(), &mut self.limits) };
        mem::forget(self);
        to_result(ret)
    }
}

impl<D: Driver> Drop for LimitsUpdate<'_, D> {
    fn drop(&mut self) {
        // SAFETY: Started by `update_limits` and not committed.
        unsafe { bindings::kapi_queue_limits_cancel_update(self.disk.queue()) };
    }
}
