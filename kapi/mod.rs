// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers for what the kernel crate lacks in 7.3, one file per C subsystem.
//!
//! All `unsafe` code of this module crate is below this folder. Nothing here knows of loop
//! devices: each wrapper is written as if it were to be sent to the kernel crate, and goes away
//! once that offers the same.

pub(crate) mod bdev;
pub(crate) mod bindings;
pub(crate) mod blk_mq;
pub(crate) mod file;
pub(crate) mod gendisk;
pub(crate) mod kiocb;
pub(crate) mod miscdevice;
pub(crate) mod module;
pub(crate) mod module_param;
pub(crate) mod mutex;
pub(crate) mod pagemap;
pub(crate) mod queue_limits;
pub(crate) mod relay;
pub(crate) mod sysfs;
pub(crate) mod task;
pub(crate) mod trace;
pub(crate) mod workqueue;
