// SPDX-License-Identifier: GPL-2.0

//! Bindings of the headers that the kernel's bindings crate lacks, made by bindgen from
//! `bindings_helper.h` (see `Kbuild`); everything else is re-exported from the bindings crate.

#![allow(clippy::all)]
#![allow(clippy::undocumented_unsafe_blocks)]
#![allow(
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "generated code"
)]
#![allow(unreachable_pub, unsafe_op_in_unsafe_fn, reason = "generated code")]

pub(crate) use kernel::bindings::*;
use kernel::ffi;
#[allow(
    unused_imports,
    reason = "derived with the kernel's bindgen parameters, which Debian's headers lack"
)]
use pin_init::MaybeZeroable;

// In this module itself, so that a name here takes precedence over one of the bindings crate.
include!("bindings_generated.rs");
