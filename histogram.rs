// SPDX-License-Identifier: GPL-2.0

//! Buckets of a histogram of times, by powers of two.

/// Number of buckets.
pub(crate) const BUCKETS: usize = 24;

/// The bucket of a time in nanoseconds: bucket `i` is for times shorter than 2^i microseconds that
/// no bucket before is for, the last one for all longer ones (from 4.2 seconds).
pub(crate) fn bucket(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1000;
    let bits = u64::BITS - microseconds.leading_zeros();
    usize::try_from(bits).map_or(BUCKETS - 1, |bits| bits.min(BUCKETS - 1))
}
