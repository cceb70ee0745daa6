// SPDX-License-Identifier: GPL-2.0

//! Disks with operations, an owner and private data.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use super::{
    bdev::{BlockDevice, OpenMode},
    bindings,
    blk_mq::{DiskData, Driver, TagSet, DISK_WORK},
    workqueue::OwnedQueue,
};
use core::{
    marker::PhantomData,
    mem,
    ops::Deref,
    ptr::{self, NonNull},
};
use kernel::{
    error::{from_err_ptr, from_result, to_result},
    ffi,
    fmt::{self, Write as _},
    module::this_module,
    prelude::*,
    static_lock_class,
    types::{Opaque, ScopeGuard},
    workqueue::{Queue, RawWorkItem, Work, WorkItem, WorkItemPointer},
};

/// A disk of `D`.
///
/// # Invariants
///
/// The `struct gendisk` is valid, and its private data is a `DiskData<D>`.
#[repr(transparent)]
pub(crate) struct GenDisk<D: Driver>(Opaque<bindings::gendisk>, PhantomData<D>);

// SAFETY: All operations of a disk lock for themselves.
unsafe impl<D: Driver> Sync for GenDisk<D> {}

impl<D: Driver> GenDisk<D> {
    /// # Safety
    ///
    /// `ptr` is a valid disk of `D` for `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::gendisk) -> &'a Self {
        // SAFETY: By the safety requirement; the layout is that of `struct gendisk`.
        unsafe { &*ptr.cast::<Self>() }
    }

    /// The disk, if it is one of `D`.
    ///
    /// # Safety
    ///
    /// `ptr` is a valid disk for `'a`.
    pub(super) unsafe fn from_raw_checked<'a>(ptr: *mut bindings::gendisk) -> Option<&'a Self> {
        // SAFETY: By the safety requirement. A disk with the operations of `D` is one of `D`.
        unsafe { ptr::eq((*ptr).fops, Self::fops()).then(|| Self::from_raw(ptr)) }
    }

    fn fops() -> &'static bindings::block_device_operations {
        &DiskOperations::<D>::TABLE
    }

    fn as_ptr(&self) -> *mut bindings::gendisk {
        self.0.get()
    }

    pub(super) fn queue(&self) -> *mut bindings::request_queue {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).queue }
    }

    pub(super) fn data(&self) -> &DiskData<D> {
        // SAFETY: By the type invariant; it lives until the disk is freed.
        unsafe { &*(*self.as_ptr()).private_data.cast::<DiskData<D>>() }
    }

    /// The `struct device` of the whole disk.
    fn device(&self) -> *mut bindings::device {
        // SAFETY: By the type invariant; partition 0 is the disk itself.
        unsafe { &raw mut (*(*self.as_ptr()).part0).bd_device }
    }

    /// The `struct kobject` of the whole disk.
    pub(super) fn kobject(&self) -> *mut bindings::kobject {
        // SAFETY: By the type invariant.
        unsafe { &raw mut (*self.device()).kobj }
    }

    /// The driver instance.
    pub(crate) fn driver(&self) -> &D {
        &self.data().driver
    }

    /// Gives the driver its I/O state, if it has none; gives it back otherwise.
    pub(crate) fn publish_io(&self, io: KBox<D::Io>) -> Result<(), KBox<D::Io>> {
        self.data().publish_io(io)
    }

    /// How many openers there are; stable under `open_mutex` only.
    pub(crate) fn openers(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_disk_openers(self.as_ptr()) }
    }

    /// Sets the size in sectors of 512 bytes. Returns whether user space was told by a RESIZE
    /// event. Sleeps.
    pub(crate) fn set_capacity_and_notify(&self, sectors: u64) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::set_capacity_and_notify(self.as_ptr(), sectors) }
    }

    /// Makes the disk read-only for users, or writable. Sleeps.
    pub(crate) fn set_read_only(&self, on: bool) {
        // SAFETY: By the type invariant.
        unsafe { bindings::set_disk_ro(self.as_ptr(), on) };
    }

    /// Sends a CHANGE uevent. Sleeps.
    pub(crate) fn notify_change(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::kobject_uevent(self.kobject(), bindings::kobject_action_KOBJ_CHANGE) };
    }

    /// Holds uevents of the disk back until the result is dropped.
    pub(crate) fn suppress_uevents(&self) -> QuietDisk<'_, D> {
        // SAFETY: By the type invariant.
        unsafe { bindings::kapi_dev_set_uevent_suppress(self.device(), 1) };
        QuietDisk(self)
    }

    /// Says that there is another medium in the drive: invalidates what is cached of it and tells
    /// user space by a `DISK_MEDIA_CHANGE` event and a new sequence number. Sleeps.
    pub(crate) fn force_media_change(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::disk_force_media_change(self.as_ptr()) };
    }

    /// Writes the disk's own page cache back and drops it. Sleeps, does I/O on the disk.
    pub(crate) fn sync_and_invalidate(&self) {
        // SAFETY: Partition 0 of a valid disk.
        unsafe { bindings::sync_blockdev((*self.as_ptr()).part0) };
        self.invalidate_clean();
    }

    /// Drops what is clean, and in nobody's hands, of the disk's own page cache. Sleeps, does no I/O.
    pub(crate) fn invalidate_clean(&self) {
        // SAFETY: Partition 0 of a valid disk.
        unsafe { bindings::invalidate_bdev((*self.as_ptr()).part0) };
    }

    /// Sets capacity and page cache to nothing. Sleeps.
    pub(crate) fn invalidate(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::invalidate_disk(self.as_ptr()) };
    }

    /// Allows or forbids the kernel's partition scan.
    pub(crate) fn set_partition_scan(&self, on: bool) {
        // SAFETY: By the type invariant; atomic bit operations.
        unsafe {
            if on {
                bindings::kapi_disk_clear_state_bit(self.as_ptr(), bindings::GD_SUPPRESS_PART_SCAN);
            } else {
                bindings::kapi_disk_set_state_bit(self.as_ptr(), bindings::GD_SUPPRESS_PART_SCAN);
            }
        }
    }

    /// Reads the partition table anew. Takes `open_mutex`; sleeps, does I/O on the disk.
    pub(crate) fn rescan_partitions(&self) -> Result {
        // SAFETY: By the type invariant; the function wants `open_mutex` held.
        to_result(unsafe {
            bindings::mutex_lock(&raw mut (*self.as_ptr()).open_mutex);
            let ret = bindings::bdev_disk_changed(self.as_ptr(), false);
            bindings::mutex_unlock(&raw mut (*self.as_ptr()).open_mutex);
            ret
        })
    }

    /// Calls [`Driver::disk_work`] from a system workqueue soon, once however often it is asked
    /// for meanwhile. Any context.
    pub(crate) fn schedule_work(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::get_device(self.device()) };
        // INVARIANT: The reference was taken just now.
        let disk = DiskRef(NonNull::from(self));
        // The kernel crate's `system()` is `system_wq`, of which 7.3 warns that it is deprecated.
        // SAFETY: A workqueue of the kernel's, there as long as the kernel.
        let queue = unsafe { Queue::from_raw(bindings::system_percpu_wq) };
        // If it is pending, the reference is dropped with the error.
        let _ = queue.enqueue(disk);
    }
}

/// A disk whose uevents are held back; see [`GenDisk::suppress_uevents`].
pub(crate) struct QuietDisk<'a, D: Driver>(&'a GenDisk<D>);

impl<D: Driver> Drop for QuietDisk<'_, D> {
    fn drop(&mut self) {
        // SAFETY: The disk is valid.
        unsafe { bindings::kapi_dev_set_uevent_suppress(self.0.device(), 0) };
    }
}

/// A disk whose last opener has gone, seen under its `open_mutex`.
pub(crate) struct ClosedDisk<'a, D: Driver>(&'a GenDisk<D>);

impl<D: Driver> Deref for ClosedDisk<'_, D> {
    type Target = GenDisk<D>;

    fn deref(&self) -> &GenDisk<D> {
        self.0
    }
}

impl<D: Driver> ClosedDisk<'_, D> {
    /// Reads the partition table of the disk, which has none any more: all partitions go away,
    /// those added by hand too. Sleeps.
    pub(crate) fn drop_partitions(&self) -> Result {
        // SAFETY: The disk is valid, and `open_mutex` is held by the caller of `release_callback`.
        to_result(unsafe { bindings::bdev_disk_changed(self.as_ptr(), false) })
    }
}

/// A reference on a disk, of its scheduled work.
///
/// # Invariants
///
/// The disk is valid, and one reference of its device belongs to this value.
pub(super) struct DiskRef<D: Driver>(NonNull<GenDisk<D>>);

// SAFETY: A disk may be used and put by any task.
unsafe impl<D: Driver> Send for DiskRef<D> {}

impl<D: Driver> Deref for DiskRef<D> {
    type Target = GenDisk<D>;

    fn deref(&self) -> &GenDisk<D> {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl<D: Driver> Drop for DiskRef<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::put_device(self.device()) };
    }
}

// SAFETY: The work item is part of the disk's private data, which the reference keeps until
// `run` takes it up.
unsafe impl<D: Driver> RawWorkItem<DISK_WORK> for DiskRef<D> {
    type EnqueueOutput = Result<(), Self>;

    unsafe fn __enqueue<F>(self, queue_work_on: F) -> Self::EnqueueOutput
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The private data is valid.
        let work = unsafe { Work::raw_get(&raw const self.data().work) };
        let disk = mem::ManuallyDrop::new(self);
        if queue_work_on(work) {
            Ok(())
        } else {
            Err(mem::ManuallyDrop::into_inner(disk))
        }
    }
}

// SAFETY: `run` is called with the work item that `__enqueue` passed, and takes the reference that
// went with it.
unsafe impl<D: Driver> WorkItemPointer<DISK_WORK> for DiskRef<D> {
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // CAST: `Work` is transparent.
        let work = work.cast::<Work<DiskData<D>, DISK_WORK>>();
        // SAFETY: The work item is the field of a `DiskData<D>`, whose disk is `disk`.
        let disk = unsafe {
            let data = kernel::container_of!(work, DiskData<D>, work);
            NonNull::new_unchecked((*data).disk().cast::<GenDisk<D>>())
        };
        // INVARIANT: `__enqueue` kept a reference for this.
        <DiskData<D> as WorkItem<DISK_WORK>>::run(DiskRef(disk));
    }
}

/// What a disk is made with.
pub(crate) struct DiskConfig<'a> {
    /// Block major.
    pub(crate) major: u32,
    /// First minor.
    pub(crate) first_minor: u32,
    /// Minors for the disk and its partitions.
    pub(crate) minors: u32,
    /// Name in /dev.
    pub(crate) name: fmt::Arguments<'a>,
    /// Most sectors of 512 bytes in one request.
    pub(crate) max_sectors: u32,
    /// Hardware queues.
    pub(crate) nr_hw_queues: u32,
    /// Tags per hardware queue.
    pub(crate) queue_depth: u32,
    /// Let the kernel scan partitions from the beginning.
    pub(crate) partition_scan: bool,
    /// Where requests go that are relayed; one item at a time.
    pub(crate) relay_queue: OwnedQueue,
    /// Where requests go that are enqueued.
    pub(crate) queue: OwnedQueue,
    /// And those by which memory is swapped out.
    pub(crate) swap_queue: OwnedQueue,
}

/// A disk that this value added to the system, and removes from it when dropped.
///
/// # Invariants
///
/// The disk was added, and one reference belongs to this value.
pub(crate) struct OwnedDisk<D: Driver> {
    disk: NonNull<GenDisk<D>>,
    tags: Pin<KBox<TagSet<D>>>,
}

// SAFETY: A disk may be removed by any task.
unsafe impl<D: Driver> Send for OwnedDisk<D> {}
// SAFETY: All operations of a disk lock for themselves.
unsafe impl<D: Driver> Sync for OwnedDisk<D> {}

impl<D: Driver> Deref for OwnedDisk<D> {
    type Target = GenDisk<D>;

    fn deref(&self) -> &GenDisk<D> {
        // SAFETY: By the type invariant.
        unsafe { self.disk.as_ref() }
    }
}

impl<D: Driver> OwnedDisk<D> {
    /// Makes a disk and adds it to the system. Opens may come before this returns. Sleeps; call
    /// with no lock held that an open takes.
    pub(crate) fn add<E>(config: DiskConfig<'_>, driver: impl PinInit<D, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        let tags = KBox::try_pin_init(
            TagSet::<D>::new(config.nr_hw_queues, config.queue_depth),
            GFP_KERNEL,
        )?;
        let data = KBox::try_pin_init(
            DiskData::new(config.relay_queue, config.queue, config.swap_queue, driver),
            GFP_KERNEL,
        )?;
        // SAFETY: Pinned until the disk is freed: only a raw pointer to it is kept.
        let data = KBox::into_raw(unsafe { Pin::into_inner_unchecked(data) });
        let free_data = ScopeGuard::new_with_data(data, |data| {
            // SAFETY: From `into_raw`, and the disk, if any, was not added.
            drop(unsafe { KBox::from_raw(data) });
        });

        let mut limits: bindings::queue_limits = pin_init::zeroed();
        limits.max_hw_sectors = config.max_sectors;
        // SAFETY: The tag set is initialised and outlives the disk.
        let disk = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                tags.as_ptr(),
                &mut limits,
                data.cast(),
                static_lock_class!().as_ptr(),
            )
        })?;
        let put_disk = ScopeGuard::new(move || {
            // SAFETY: Allocated above and not added; nothing else refers to it.
            unsafe { bindings::put_disk(disk) };
        });

        // SAFETY: The disk is not added yet, so that it is this function's alone.
        unsafe {
            tags.class_queue_locks((*disk).queue);
            (*data).set_disk(disk);
            (*disk).major = i32::try_from(config.major)?;
            (*disk).first_minor = i32::try_from(config.first_minor)?;
            (*disk).minors = i32::try_from(config.minors)?;
            (*disk).fops = GenDisk::<D>::fops();
            (*disk).private_data = data.cast();
            (*disk).events = bindings::DISK_EVENT_MEDIA_CHANGE as ffi::c_ushort;
            (*disk).event_flags = bindings::DISK_EVENT_FLAG_UEVENT as ffi::c_ushort;
            // The name fits with its NUL, or an error is returned.
            let name = &mut (*disk).disk_name;
            let last = name.len() - 1;
            let mut writer = kernel::str::Formatter::new(core::slice::from_raw_parts_mut(
                name.as_mut_ptr().cast(),
                last,
            ));
            writer.write_fmt(config.name).map_err(|_| ENAMETOOLONG)?;
            if !config.partition_scan {
                bindings::kapi_disk_set_state_bit(disk, bindings::GD_SUPPRESS_PART_SCAN);
            }
            to_result(bindings::device_add_disk(
                ptr::null_mut(),
                disk,
                ptr::null_mut(),
            ))?;
        }
        // From here on `free_disk_callback` frees the data.
        free_data.dismiss();
        put_disk.dismiss();
        // INVARIANT: Added just now; `__blk_mq_alloc_disk()` returned a reference.
        Ok(Self {
            // SAFETY: Not null.
            disk: unsafe { NonNull::new_unchecked(disk.cast()) },
            tags,
        })
    }
}

impl<D: Driver> Drop for OwnedDisk<D> {
    fn drop(&mut self) {
        let disk = self.as_ptr();
        // SAFETY: Added by `add`. `del_gendisk()` waits for all requests, and not for a task that
        // has dispatched one and is about to return from there. Afterwards none can
        // schedule the work of the disk; if it was pending, its reference is given back here.
        unsafe {
            bindings::del_gendisk(disk);
            self.tags.wait_for_dispatches();
            let work = Work::raw_get(&raw const self.data().work);
            if bindings::cancel_work_sync(work) {
                bindings::put_device(self.device());
            }
            self.data().drop_io();
            bindings::put_disk(disk);
        }
    }
}

/// The C operations of a disk of `D`.
struct DiskOperations<D: Driver>(PhantomData<D>);

impl<D: Driver> DiskOperations<D> {
    const TABLE: bindings::block_device_operations = bindings::block_device_operations {
        submit_bio: None,
        poll_bio: None,
        open: Some(open_callback::<D>),
        release: Some(release_callback::<D>),
        ioctl: Some(ioctl_callback::<D>),
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: Some(compat_ioctl_callback::<D>),
        #[cfg(not(CONFIG_COMPAT))]
        compat_ioctl: None,
        check_events: None,
        unlock_native_capacity: None,
        getgeo: None,
        set_read_only: None,
        free_disk: Some(free_disk_callback::<D>),
        swap_slot_free_notify: None,
        report_zones: None,
        devnode: None,
        get_unique_id: None,
        owner: this_module::<D::Module>().as_ptr(),
        pr_ops: ptr::null(),
        alternative_gpt_sector: None,
    };
}

/// # Safety
///
/// Called by the block layer for a disk of `D`.
unsafe extern "C" fn open_callback<D: Driver>(
    disk: *mut bindings::gendisk,
    _mode: bindings::blk_mode_t,
) -> ffi::c_int {
    // SAFETY: A valid disk of `D`.
    let disk = unsafe { GenDisk::<D>::from_raw(disk) };
    from_result(|| D::open(disk).map(|()| 0))
}

/// # Safety
///
/// Called by the block layer for a disk of `D`, with `open_mutex` held.
unsafe extern "C" fn release_callback<D: Driver>(disk: *mut bindings::gendisk) {
    // SAFETY: A valid disk of `D`.
    let disk = unsafe { GenDisk::<D>::from_raw(disk) };
    if disk.openers() == 0 {
        D::last_close(&ClosedDisk(disk));
    }
}

/// The disk of an open block device, and that device.
///
/// # Safety
///
/// `bdev` belongs to a disk of `D`, and stays open for `'a`.
unsafe fn opened<'a, D: Driver>(
    bdev: *mut bindings::block_device,
) -> (&'a GenDisk<D>, BlockDevice<'a>) {
    // SAFETY: As above.
    unsafe {
        (
            GenDisk::from_raw((*bdev).bd_disk),
            BlockDevice::from_raw(NonNull::new_unchecked(bdev)),
        )
    }
}

/// # Safety
///
/// Called by the block layer for an open block device of a disk of `D`.
unsafe extern "C" fn ioctl_callback<D: Driver>(
    bdev: *mut bindings::block_device,
    mode: bindings::blk_mode_t,
    cmd: ffi::c_uint,
    arg: ffi::c_ulong,
) -> ffi::c_int {
    // SAFETY: By the contract of this function, for the call.
    let (disk, bdev) = unsafe { opened::<D>(bdev) };
    from_result(|| D::ioctl(disk, bdev, OpenMode(mode), cmd, arg))
}

/// # Safety
///
/// Called by the block layer for an open block device of a disk of `D`.
#[cfg(CONFIG_COMPAT)]
unsafe extern "C" fn compat_ioctl_callback<D: Driver>(
    bdev: *mut bindings::block_device,
    mode: bindings::blk_mode_t,
    cmd: ffi::c_uint,
    arg: ffi::c_ulong,
) -> ffi::c_int {
    // SAFETY: By the contract of this function, for the call.
    let (disk, bdev) = unsafe { opened::<D>(bdev) };
    from_result(|| D::compat_ioctl(disk, bdev, OpenMode(mode), cmd, arg))
}

/// # Safety
///
/// Called by the block layer when the last reference on an added disk of `D` has gone.
unsafe extern "C" fn free_disk_callback<D: Driver>(disk: *mut bindings::gendisk) {
    // SAFETY: `OwnedDisk::add` left the data to this function.
    drop(unsafe { KBox::from_raw((*disk).private_data.cast::<DiskData<D>>()) });
}
