// SPDX-License-Identifier: GPL-2.0

//! Misc devices with a fixed minor, and nothing but ioctls that need no per-file state.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h)

use super::bindings;
use core::{marker::PhantomData, ptr};
use kernel::{
    error::{from_result, to_result},
    ffi,
    module::{this_module, ModuleMetadata},
    prelude::*,
    sync::Arc,
    types::Opaque,
};

/// The operations of a control node.
pub(crate) trait ControlNode: Send + Sync + 'static {
    /// The module that holds the code; open files keep it loaded.
    type Module: ModuleMetadata;

    /// An ioctl, native or 32-bit. Process context, no locks.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result<i32>;
}

/// A registered misc device whose ioctls go to a `T`.
///
/// # Invariants
///
/// `inner` is registered, and is the first field, so that the file's private data, which the misc
/// core points at it, leads to `data`.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct ControlDevice<T: ControlNode> {
    #[pin]
    inner: Opaque<bindings::miscdevice>,
    data: Arc<T>,
}

// SAFETY: A misc device may be deregistered by any task.
unsafe impl<T: ControlNode> Send for ControlDevice<T> {}
// SAFETY: There are no methods but the registration's.
unsafe impl<T: ControlNode> Sync for ControlDevice<T> {}

impl<T: ControlNode> ControlDevice<T> {
    /// Registers /dev/`name` with the given minor. Sleeps. `EBUSY` if the minor is taken; `failed`
    /// is told of an error before it is returned.
    pub(crate) fn register(
        minor: u32,
        name: &'static CStr,
        data: Arc<T>,
        failed: impl FnOnce(Error),
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            data,
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                let mut misc: bindings::miscdevice = pin_init::zeroed();
                misc.minor = i32::try_from(minor)?;
                misc.name = name.as_char_ptr();
                misc.fops = &Operations::<T>::TABLE;
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(misc) };
                // SAFETY: Filled in above; deregistered before it goes away. `data` is in place
                // already, so that an open may follow at once.
                to_result(unsafe { bindings::misc_register(slot) })
                    .inspect_err(|error| failed(*error))
            }),
        })
    }
}

#[pinned_drop]
impl<T: ControlNode> PinnedDrop for ControlDevice<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant.
        unsafe { bindings::misc_deregister(self.inner.get()) };
    }
}

/// The C operations of a control node.
struct Operations<T: ControlNode>(PhantomData<T>);

impl<T: ControlNode> Operations<T> {
    const TABLE: bindings::file_operations = {
        let mut table: bindings::file_operations = pin_init::zeroed();
        table.owner = this_module::<T::Module>().as_ptr();
        table.open = Some(bindings::nonseekable_open);
        table.llseek = Some(bindings::noop_llseek);
        table.unlocked_ioctl = Some(ioctl_callback::<T>);
        table.compat_ioctl = Some(ioctl_callback::<T>);
        table
    };
}

/// # Safety
///
/// Called by the VFS for an open file of a [`ControlDevice<T>`].
unsafe extern "C" fn ioctl_callback<T: ControlNode>(
    file: *mut bindings::file,
    cmd: ffi::c_uint,
    arg: ffi::c_ulong,
) -> ffi::c_long {
    // SAFETY: The misc core sets the private data of an open file to the `struct miscdevice`, the
    // first field of a `ControlDevice<T>`, which stays registered while code of the module runs.
    let device = unsafe { (*file).private_data.cast::<ControlDevice<T>>() };
    // SAFETY: As above.
    let data = unsafe { &*ptr::addr_of!((*device).data) };
    from_result(|| Ok(isize::try_from(data.ioctl(cmd, arg)?)?))
}
