// SPDX-License-Identifier: GPL-2.0

use crate::histogram::{bucket, BUCKETS};
use proptest::prelude::*;

#[test]
fn borders() {
    assert_eq!(bucket(0), 0);
    assert_eq!(bucket(999), 0);
    assert_eq!(bucket(1_000), 1);
    assert_eq!(bucket(1_999), 1);
    assert_eq!(bucket(2_000), 2);
    assert_eq!(bucket(3_999), 2);
    assert_eq!(bucket(4_000), 3);
    assert_eq!(bucket(1_000_000), 10);
    assert_eq!(bucket(4_194_303_999), 22);
    assert_eq!(bucket(4_194_304_000), 23);
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

proptest! {
    #[test]
    fn is_the_first_that_fits(nanoseconds: u64) {
        let first = (0..BUCKETS - 1).find(|&i| nanoseconds < 1000 << i);
        prop_assert_eq!(bucket(nanoseconds), first.unwrap_or(BUCKETS - 1));
    }
}
