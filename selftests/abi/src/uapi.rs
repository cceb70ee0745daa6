// SPDX-License-Identifier: GPL-2.0

//! `include/uapi/linux/loop.h` as a C program of this word size sees it.

use crate::kapi::Plain;

pub const LOOP_SET_FD: u32 = 0x4c00;
pub const LOOP_CLR_FD: u32 = 0x4c01;
pub const LOOP_SET_STATUS: u32 = 0x4c02;
pub const LOOP_GET_STATUS: u32 = 0x4c03;
pub const LOOP_SET_STATUS64: u32 = 0x4c04;
pub const LOOP_GET_STATUS64: u32 = 0x4c05;
pub const LOOP_CHANGE_FD: u32 = 0x4c06;
pub const LOOP_SET_CAPACITY: u32 = 0x4c07;
pub const LOOP_SET_DIRECT_IO: u32 = 0x4c08;
pub const LOOP_SET_BLOCK_SIZE: u32 = 0x4c09;
pub const LOOP_CONFIGURE: u32 = 0x4c0a;

pub const LOOP_CTL_ADD: u32 = 0x4c80;
pub const LOOP_CTL_REMOVE: u32 = 0x4c81;
pub const LOOP_CTL_GET_FREE: u32 = 0x4c82;

/// `__kernel_old_dev_t`.
#[cfg(target_pointer_width = "64")]
pub type OldDev = u64;
/// `__kernel_old_dev_t`.
#[cfg(target_pointer_width = "32")]
pub type OldDev = u16;

/// `struct loop_info`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LoopInfo {
    pub number: i32,
    pub device: OldDev,
    pub inode: usize,
    pub rdevice: OldDev,
    pub offset: i32,
    pub encrypt_type: i32,
    pub encrypt_key_size: i32,
    pub flags: i32,
    pub name: [u8; 64],
    pub encrypt_key: [u8; 32],
    pub init: [usize; 2],
    pub reserved: [u8; 4],
}

/// `struct loop_info64`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LoopInfo64 {
    pub device: u64,
    pub inode: u64,
    pub rdevice: u64,
    pub offset: u64,
    pub sizelimit: u64,
    pub number: u32,
    pub encrypt_type: u32,
    pub encrypt_key_size: u32,
    pub flags: u32,
    pub file_name: [u8; 64],
    pub crypt_name: [u8; 64],
    pub encrypt_key: [u8; 32],
    pub init: [u64; 2],
}

/// `struct loop_config`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LoopConfig {
    pub fd: u32,
    pub block_size: u32,
    pub info: LoopInfo64,
    pub reserved: [u64; 8],
}

/// `struct blkpg_ioctl_arg` of `include/uapi/linux/blkpg.h`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BlkpgArg {
    pub op: i32,
    pub flags: i32,
    pub datalen: i32,
    pub data: *const BlkpgPartition,
}

/// `struct blkpg_partition`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BlkpgPartition {
    pub start: i64,
    pub length: i64,
    pub pno: i32,
    pub names: [u8; 128],
}

impl Plain for LoopInfo {}
impl Plain for LoopInfo64 {}
impl Plain for LoopConfig {}
impl Plain for BlkpgPartition {}
impl Plain for BlkpgArg {}
