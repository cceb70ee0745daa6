// SPDX-License-Identifier: GPL-2.0

//! The ioctls of a loop device: layouts, permissions, and who does what.
//!
//! Layouts: `include/uapi/linux/loop.h`; that of 32-bit processes is the same with their types.

use crate::{
    kapi::{
        bdev::{BlockDevice, OpenMode},
        bindings,
        gendisk::GenDisk,
        task,
    },
    loop_device::{info_error, Configuration, LoopDevice},
    loop_info::{Flags, OldStatus, Status, CRYPT_CRYPTOAPI, CRYPT_NONE, CRYPT_XOR, NAME_SIZE},
};
use core::mem;
use kernel::{
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};
use zerocopy::FromZeros;
use zerocopy_derive::Immutable;

/// `struct loop_info64`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; NAME_SIZE],
    crypt_name: [u8; NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoopConfig {
    fd: i32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// `struct loop_info` of a 64-bit process; gaps are named.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LoopInfo {
    number: i32,
    gap: u32,
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: i32,
    encrypt_type: i32,
    encrypt_key_size: i32,
    flags: i32,
    name: [u8; NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u64; 2],
    reserved: [u8; 4],
    tail: u32,
}

/// `struct loop_info` of a 32-bit process on x86-64; gaps are named.
#[cfg(CONFIG_COMPAT)]
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct CompatLoopInfo {
    number: i32,
    device: u16,
    gap: u16,
    inode: u32,
    rdevice: u16,
    gap2: u16,
    offset: i32,
    encrypt_type: i32,
    encrypt_key_size: i32,
    flags: i32,
    name: [u8; NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u32; 2],
    reserved: [u8; 4],
}

kernel::static_assert!(mem::size_of::<LoopInfo64>() == mem::size_of::<bindings::loop_info64>());
kernel::static_assert!(mem::size_of::<LoopConfig>() == mem::size_of::<bindings::loop_config>());
kernel::static_assert!(mem::size_of::<LoopInfo>() == mem::size_of::<bindings::loop_info>());
kernel::static_assert!(
    mem::offset_of!(LoopInfo64, flags) == mem::offset_of!(bindings::loop_info64, lo_flags)
);
kernel::static_assert!(
    mem::offset_of!(LoopInfo, flags) == mem::offset_of!(bindings::loop_info, lo_flags)
);
kernel::static_assert!(NAME_SIZE == bindings::LO_NAME_SIZE as usize);
kernel::static_assert!(32 == bindings::LO_KEY_SIZE);
kernel::static_assert!(CRYPT_NONE == bindings::LO_CRYPT_NONE);
kernel::static_assert!(CRYPT_XOR == bindings::LO_CRYPT_XOR);
kernel::static_assert!(CRYPT_CRYPTOAPI == bindings::LO_CRYPT_CRYPTOAPI);
kernel::static_assert!(
    Flags::CONFIGURE_SETTABLE.bits()
        == bindings::LO_FLAGS_READ_ONLY
            | bindings::LO_FLAGS_AUTOCLEAR
            | bindings::LO_FLAGS_PARTSCAN
            | bindings::LO_FLAGS_DIRECT_IO
);
kernel::static_assert!(
    Flags::SET_STATUS_SETTABLE.bits() == bindings::LO_FLAGS_AUTOCLEAR | bindings::LO_FLAGS_PARTSCAN
);
kernel::static_assert!(Flags::SET_STATUS_CLEARABLE.bits() == bindings::LO_FLAGS_AUTOCLEAR);

impl From<LoopInfo64> for Status {
    fn from(info: LoopInfo64) -> Self {
        Self {
            offset: info.offset,
            sizelimit: info.sizelimit,
            flags: info.flags,
            encrypt_type: info.encrypt_type,
            encrypt_key_size: info.encrypt_key_size,
            name: info.file_name,
            number: info.number,
            device: info.device,
            inode: info.inode,
            rdevice: info.rdevice,
        }
    }
}

impl From<Status> for LoopInfo64 {
    fn from(status: Status) -> Self {
        Self {
            device: status.device,
            inode: status.inode,
            rdevice: status.rdevice,
            offset: status.offset,
            sizelimit: status.sizelimit,
            number: status.number,
            flags: status.flags,
            file_name: status.name,
            ..Self::new_zeroed()
        }
    }
}

/// Conversions between an old layout and [`OldStatus`].
macro_rules! old_layout {
    ($layout:ty, $device:ty, $inode:ty) => {
        impl From<$layout> for OldStatus<$device, $inode> {
            fn from(info: $layout) -> Self {
                Self {
                    number: info.number,
                    device: info.device,
                    inode: info.inode,
                    rdevice: info.rdevice,
                    offset: info.offset,
                    flags: info.flags,
                    name: info.name,
                }
            }
        }

        impl From<OldStatus<$device, $inode>> for $layout {
            fn from(status: OldStatus<$device, $inode>) -> Self {
                Self {
                    number: status.number,
                    device: status.device,
                    inode: status.inode,
                    rdevice: status.rdevice,
                    offset: status.offset,
                    flags: status.flags,
                    name: status.name,
                    ..Self::new_zeroed()
                }
            }
        }
    };
}

old_layout!(LoopInfo, u64, u64);
#[cfg(CONFIG_COMPAT)]
old_layout!(CompatLoopInfo, u16, u32);

/// Copies a structure in. `EFAULT`.
fn read<T: FromBytes + IntoBytes>(arg: usize) -> Result<T> {
    let mut value = T::new_zeroed();
    UserSlice::new(UserPtr::from_addr(arg), mem::size_of::<T>())
        .reader()
        .read_slice(value.as_mut_bytes())?;
    Ok(value)
}

/// Copies a structure out. `EFAULT`.
fn write<T: IntoBytes + zerocopy::Immutable>(arg: usize, value: &T) -> Result {
    UserSlice::new(UserPtr::from_addr(arg), mem::size_of::<T>())
        .writer()
        .write_slice(value.as_bytes())
}

/// An argument that is a file descriptor.
fn descriptor(arg: usize) -> i32 {
    // An `int` in the low half; the rest is not looked at, as everywhere in the kernel.
    (arg & 0xffff_ffff) as u32 as i32
}

/// `EPERM` unless the device is open for writing, or the caller may administer the system.
fn check_permission(mode: OpenMode) -> Result {
    if mode.is_write() || task::is_system_administrator() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// An ioctl of a process of the kernel's own word size.
pub(crate) fn native(
    disk: &GenDisk<LoopDevice>,
    bdev: BlockDevice<'_>,
    mode: OpenMode,
    cmd: u32,
    arg: usize,
) -> Result<i32> {
    let device = disk.driver();
    match cmd {
        bindings::LOOP_SET_FD => {
            let config = Configuration {
                fd: descriptor(arg),
                block_size: 0,
                status: LoopInfo64::new_zeroed().into(),
            };
            device.configure(disk, bdev, mode, &config)?;
        }
        bindings::LOOP_CONFIGURE => {
            let config: LoopConfig = read(arg)?;
            let config = Configuration {
                fd: config.fd,
                block_size: config.block_size,
                status: config.info.into(),
            };
            device.configure(disk, bdev, mode, &config)?;
        }
        bindings::LOOP_CHANGE_FD => device.change_fd(disk, descriptor(arg))?,
        bindings::LOOP_CLR_FD => device.clear_fd(disk)?,
        bindings::LOOP_SET_STATUS => {
            check_permission(mode)?;
            set_old_status::<LoopInfo, _, _>(disk, arg)?;
        }
        bindings::LOOP_GET_STATUS => get_old_status::<LoopInfo, _, _>(disk, arg)?,
        bindings::LOOP_SET_STATUS64 => {
            check_permission(mode)?;
            let info: LoopInfo64 = read(arg)?;
            device.set_status(disk, &info.into())?;
        }
        bindings::LOOP_GET_STATUS64 => {
            check_pointer(arg)?;
            write(arg, &LoopInfo64::from(device.status()?))?;
        }
        bindings::LOOP_SET_BLOCK_SIZE => {
            check_permission(mode)?;
            device.set_block_size(disk, bdev, mode, arg)?;
        }
        bindings::LOOP_SET_CAPACITY => {
            check_permission(mode)?;
            device.set_capacity(disk)?;
        }
        bindings::LOOP_SET_DIRECT_IO => {
            check_permission(mode)?;
            device.set_direct_io(disk, arg != 0)?;
        }
        _ => return Err(EINVAL),
    }
    Ok(0)
}

/// An ioctl of a 32-bit process. Only the old structure differs; pointers come zero-extended.
#[cfg(CONFIG_COMPAT)]
pub(crate) fn compat(
    disk: &GenDisk<LoopDevice>,
    bdev: BlockDevice<'_>,
    mode: OpenMode,
    cmd: u32,
    arg: usize,
) -> Result<i32> {
    match cmd {
        bindings::LOOP_SET_STATUS => {
            check_permission(mode)?;
            set_old_status::<CompatLoopInfo, _, _>(disk, arg)?;
            Ok(0)
        }
        bindings::LOOP_GET_STATUS => {
            get_old_status::<CompatLoopInfo, _, _>(disk, arg)?;
            Ok(0)
        }
        bindings::LOOP_SET_FD
        | bindings::LOOP_CONFIGURE
        | bindings::LOOP_CHANGE_FD
        | bindings::LOOP_CLR_FD
        | bindings::LOOP_SET_STATUS64
        | bindings::LOOP_GET_STATUS64
        | bindings::LOOP_SET_BLOCK_SIZE
        | bindings::LOOP_SET_CAPACITY
        | bindings::LOOP_SET_DIRECT_IO => native(disk, bdev, mode, cmd, arg),
        _ => Err(kernel::error::code::ENOIOCTLCMD),
    }
}

/// `EINVAL` for a null pointer, as it always was for these.
fn check_pointer(arg: usize) -> Result {
    if arg == 0 {
        return Err(EINVAL);
    }
    Ok(())
}

fn set_old_status<L, D, I>(disk: &GenDisk<LoopDevice>, arg: usize) -> Result
where
    L: FromBytes + IntoBytes + Into<OldStatus<D, I>>,
    D: TryInto<u64>,
    I: TryInto<u64>,
{
    let info: L = read(arg)?;
    let status = Status::from_old(info.into()).map_err(info_error)?;
    disk.driver().set_status(disk, &status)
}

fn get_old_status<L, D, I>(disk: &GenDisk<LoopDevice>, arg: usize) -> Result
where
    L: IntoBytes + zerocopy::Immutable + From<OldStatus<D, I>>,
    D: TryFrom<u64>,
    I: TryFrom<u64>,
{
    check_pointer(arg)?;
    let status = disk.driver().status()?;
    write(arg, &L::from(status.to_old().map_err(info_error)?))
}
