// SPDX-License-Identifier: GPL-2.0

//! Trace events, which C defines (`rust_loop_events.h`). Each costs a call and a jump that is patched
//! while nobody listens. Any context.

use super::{
    bindings,
    blk_mq::{Driver, Request},
};
use kernel::prelude::*;

/// `rust_loop_try`: a try of the command has ended in this way.
pub(crate) fn tried<D: Driver>(rq: &Request<D>, outcome: &'static CStr) {
    // SAFETY: The request is owned by its value, and has a disk; the string is static.
    unsafe { bindings::kapi_trace_try(rq.as_ptr(), outcome.as_char_ptr()) };
}

/// `rust_loop_punt`: the command goes to a work item for this reason.
pub(crate) fn punted<D: Driver>(rq: &Request<D>, reason: &'static CStr) {
    // SAFETY: As above.
    unsafe { bindings::kapi_trace_punt(rq.as_ptr(), reason.as_char_ptr()) };
}

/// `rust_loop_complete`: the request is about to end.
pub(super) fn completing<D: Driver>(rq: &Request<D>, status: bindings::blk_status_t) {
    // SAFETY: As above.
    unsafe { bindings::kapi_trace_complete(rq.as_ptr(), status) };
}
