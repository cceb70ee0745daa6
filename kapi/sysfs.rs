// SPDX-License-Identifier: GPL-2.0

//! Groups of attributes of a disk.
//!
//! C headers: [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h),
//! [`include/linux/device.h`](srctree/include/linux/device.h)

use super::{bindings, blk_mq::Driver, gendisk::GenDisk};
use core::ptr;
use kernel::{
    error::{from_result, to_result, VTABLE_DEFAULT_ERROR},
    ffi,
    page::PAGE_SIZE,
    prelude::*,
};

/// An attribute of a disk of `D`.
#[vtable]
pub(crate) trait DiskAttribute<D: Driver>: 'static {
    /// The file's name.
    const NAME: &'static CStr;

    /// Writes the file's contents to `page` and returns their length in bytes. May sleep.
    fn show(disk: &GenDisk<D>, page: &mut [u8]) -> Result<usize>;

    /// Takes a new value, as it was written to the file. An attribute that has this is writable for
    /// the owner, root. May sleep.
    fn store(_disk: &GenDisk<D>, _text: &[u8]) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// The C attribute of `A`.
#[repr(transparent)]
pub(crate) struct RawAttribute(pub(super) bindings::device_attribute);

// SAFETY: Never written to.
unsafe impl Sync for RawAttribute {}

impl RawAttribute {
    /// Makes the attribute `A`.
    pub(crate) const fn new<D: Driver, A: DiskAttribute<D>>() -> Self {
        let mut attribute: bindings::device_attribute = pin_init::zeroed();
        attribute.attr.name = kernel::str::as_char_ptr_in_const_context(A::NAME);
        attribute.attr.mode = 0o444;
        attribute.__bindgen_anon_1.show = Some(show_callback::<D, A>);
        if A::HAS_STORE {
            attribute.attr.mode = 0o644;
            attribute.__bindgen_anon_2.store = Some(store_callback::<D, A>);
        }
        Self(attribute)
    }

    /// What the group's list points at.
    pub(crate) const fn as_attribute(&'static self) -> *mut bindings::attribute {
        (&raw const self.0.attr).cast_mut()
    }
}

/// A named group of attributes.
#[repr(transparent)]
pub(crate) struct AttributeGroup(bindings::attribute_group);

// SAFETY: Never written to.
unsafe impl Sync for AttributeGroup {}

/// A NULL-terminated list of attributes.
#[repr(transparent)]
pub(crate) struct AttributeList<const N: usize>(pub(crate) [*mut bindings::attribute; N]);

// SAFETY: Never written to.
unsafe impl<const N: usize> Sync for AttributeList<N> {}

impl AttributeGroup {
    /// Makes a group that appears as a folder. The list ends with a null pointer; see
    /// `disk_attributes!`.
    pub(crate) const fn new<const N: usize>(
        name: &'static CStr,
        list: &'static AttributeList<N>,
    ) -> Self {
        let mut group: bindings::attribute_group = pin_init::zeroed();
        group.name = kernel::str::as_char_ptr_in_const_context(name);
        group.__bindgen_anon_2.attrs = (&raw const list.0).cast_mut().cast();
        Self(group)
    }
}

impl<D: Driver> GenDisk<D> {
    /// Adds the group to the disk's folder. Sleeps.
    pub(crate) fn add_attributes(&self, group: &'static AttributeGroup) -> Result {
        // SAFETY: The disk is valid, the group static.
        to_result(unsafe { bindings::sysfs_create_group(self.kobject(), &group.0) })
    }

    /// Removes the group, and waits for its readers: the caller holds no lock that they take.
    pub(crate) fn remove_attributes(&self, group: &'static AttributeGroup) {
        // SAFETY: The disk is valid, the group static.
        unsafe { bindings::sysfs_remove_group(self.kobject(), &group.0) };
    }
}

/// # Safety
///
/// `device` is the whole disk of a disk of `D`, which lives for `'a`.
unsafe fn disk_of<'a, D: Driver>(device: *mut bindings::device) -> &'a GenDisk<D> {
    // SAFETY: The device is that of partition 0, a `struct block_device`.
    unsafe {
        let bdev = kernel::container_of!(device, bindings::block_device, bd_device);
        GenDisk::from_raw((*bdev).bd_disk)
    }
}

/// # Safety
///
/// Called by sysfs for an attribute of a disk of `D`.
unsafe extern "C" fn show_callback<D: Driver, A: DiskAttribute<D>>(
    device: *mut bindings::device,
    _attribute: *mut bindings::device_attribute,
    page: *mut ffi::c_char,
) -> isize {
    // SAFETY: sysfs keeps the disk for the call; `page` is a page to write to.
    let (disk, page) = unsafe {
        (
            disk_of::<D>(device),
            core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE_SIZE),
        )
    };
    from_result(|| Ok(isize::try_from(A::show(disk, page)?)?))
}

/// # Safety
///
/// Called by sysfs for a writable attribute of a disk of `D`.
unsafe extern "C" fn store_callback<D: Driver, A: DiskAttribute<D>>(
    device: *mut bindings::device,
    _attribute: *mut bindings::device_attribute,
    text: *const ffi::c_char,
    len: usize,
) -> isize {
    // SAFETY: sysfs keeps the disk for the call; `text` is `len` bytes to read.
    let (disk, text) = unsafe {
        (
            disk_of::<D>(device),
            core::slice::from_raw_parts(text.cast::<u8>(), len),
        )
    };
    from_result(|| {
        A::store(disk, text)?;
        Ok(isize::try_from(len)?)
    })
}

/// Declares a static [`AttributeGroup`] of the listed [`DiskAttribute`] types of one driver.
macro_rules! disk_attributes {
    ($vis:vis static $ident:ident = $name:literal for $driver:ty { $($attribute:ty),* $(,)? }) => {
        $vis static $ident: $crate::kapi::sysfs::AttributeGroup = {
            use $crate::kapi::sysfs::{AttributeGroup, AttributeList, RawAttribute};
            static LIST: AttributeList<{ 1 $(+ $crate::kapi::sysfs::one::<$attribute>())* }> =
                AttributeList([
                    $({
                        static ATTRIBUTE: RawAttribute =
                            RawAttribute::new::<$driver, $attribute>();
                        ATTRIBUTE.as_attribute()
                    },)*
                    ::core::ptr::null_mut(),
                ]);
            AttributeGroup::new($name, &LIST)
        };
    };
}
pub(crate) use disk_attributes;

/// One, to count types with.
pub(crate) const fn one<T: ?Sized>() -> usize {
    let _ = ptr::null::<*const T>();
    1
}
