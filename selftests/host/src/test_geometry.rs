// SPDX-License-Identifier: GPL-2.0

use crate::geometry::*;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const MAX: u32 = 64 << 10;
const MAX_POSITION: u64 = i64::MAX as u64;

/// Sizes as users have them: anything, near a bound, or small.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..=8192u64,
        (0..=2048u64).prop_map(|d| u64::MAX - d),
        (0..=2048u64).prop_map(|d| MAX_POSITION - 1024 + d),
    ]
}

#[test]
fn capacity_is_the_rest_of_the_file_in_whole_sectors() {
    assert_eq!(capacity_sectors(GIB, 0, 0), GIB / 512);
    assert_eq!(capacity_sectors(GIB, 4096, 0), (GIB - 4096) / 512);
    assert_eq!(capacity_sectors(0, 0, 0), 0);
    assert_eq!(capacity_sectors(511, 0, 0), 0);
    assert_eq!(capacity_sectors(512, 0, 0), 1);
    assert_eq!(capacity_sectors(1023, 0, 0), 1);
    // An offset that is no multiple of a sector moves the whole device.
    assert_eq!(capacity_sectors(1024, 1, 0), 1);
}

#[test]
fn capacity_is_none_beyond_the_end_of_the_file() {
    assert_eq!(capacity_sectors(4096, 4096, 0), 0);
    assert_eq!(capacity_sectors(4096, 4097, 0), 0);
    assert_eq!(capacity_sectors(4096, u64::MAX, 0), 0);
    assert_eq!(capacity_sectors(4096, 8192, 4096), 0);
}

#[test]
fn sizelimit_caps_and_never_extends() {
    assert_eq!(capacity_sectors(GIB, 0, 1 << 20), 2048);
    assert_eq!(capacity_sectors(GIB, GIB - 1024, 1 << 20), 2);
    assert_eq!(capacity_sectors(GIB, 0, 1000), 1);
    assert_eq!(capacity_sectors(GIB, 0, 511), 0);
    assert_eq!(capacity_sectors(GIB, 0, 2 * GIB), GIB / 512);
}

#[test]
fn position_is_sector_and_offset() {
    assert_eq!(file_position(0, 0), Some(0));
    assert_eq!(file_position(1, 0), Some(SECTOR_SIZE));
    assert_eq!(file_position(8, 1000), Some(5096));
}

#[test]
fn position_stops_at_the_last_file_position() {
    let last = MAX_POSITION >> SECTOR_SHIFT;
    assert_eq!(file_position(last, 511), Some(MAX_POSITION));
    assert_eq!(file_position(last, 512), None);
    assert_eq!(file_position(last + 1, 0), None);
    assert_eq!(file_position(0, MAX_POSITION), Some(MAX_POSITION));
    assert_eq!(file_position(0, MAX_POSITION + 1), None);
    assert_eq!(file_position(u64::MAX, 0), None);
    assert_eq!(file_position(1, u64::MAX), None);
    // Would come out small if the product wrapped.
    assert_eq!(file_position(1 << 55, 0), None);
}

#[test]
fn block_size_takes_powers_of_two_up_to_the_limit() {
    let size = |bytes| BlockSize::new(bytes, MAX).map(|size| size.map(BlockSize::bytes));
    assert_eq!(size(0), Ok(None));
    for good in [512, 1024, 2048, 4096, 32768, 65536] {
        assert_eq!(size(good), Ok(Some(good as u32)));
    }
    for bad in [1, 2, 256, 511, 131072, 1 << 31, 1 << 32, (1 << 32) + 512] {
        assert_eq!(size(bad), Err(GeometryError::BlockSizeRange), "{bad}");
    }
    assert_eq!(size(u64::MAX), Err(GeometryError::BlockSizeRange));
    for bad in [513, 1000, 1536, 4095, 65535] {
        assert_eq!(
            size(bad),
            Err(GeometryError::BlockSizeNotPowerOfTwo),
            "{bad}"
        );
    }
}

#[test]
fn dio_without_statx_or_queue_asks_for_a_sector() {
    let c = DioConstraints::default();
    assert_eq!((c.offset_align, c.mem_align_mask), (512, 511));
    assert!(c.allows(512, 512, true));
    assert!(!c.allows(512, 511, true));
}

#[test]
fn dio_from_statx() {
    assert_eq!(DioConstraints::from_statx(0, 0, 4096), None);
    assert_eq!(DioConstraints::from_statx(4096, 0, 4096), None);
    let c = DioConstraints::from_statx(512, 4, 4096).unwrap();
    assert_eq!((c.offset_align, c.mem_align_mask), (512, 3));
    let c = DioConstraints::from_statx(65536, 65536, 4096).unwrap();
    assert_eq!((c.offset_align, c.mem_align_mask), (65536, 4095));
}

#[test]
fn dio_needs_the_file_to_take_it() {
    let c = DioConstraints::from_queue(512, 3);
    assert!(c.allows(4096, 0, true));
    assert!(!c.allows(4096, 0, false));
}

#[test]
fn dio_on_a_4k_disk_needs_4k_blocks_and_a_4k_offset() {
    let c = DioConstraints::from_queue(4096, 511);
    assert!(!c.allows(512, 0, true));
    assert!(!c.allows(2048, 0, true));
    assert!(c.allows(4096, 0, true));
    assert!(c.allows(8192, 4096, true));
    assert!(!c.allows(4096, 512, true));
    assert!(!c.allows(4096, 4097, true));
    assert!(c.allows(4096, MAX_POSITION + 1 - 4096, true));
}

#[test]
fn dio_is_refused_for_a_unit_no_block_size_fits() {
    // XFS reports the extent size of a realtime file, which may be 12 KiB.
    assert!(!DioConstraints::from_queue(12288, 511).allows(65536, 0, true));
    assert!(!DioConstraints::from_queue(0, 511).allows(512, 0, true));
}

#[test]
fn dma_mask_follows_the_file_only_in_direct_mode() {
    let strict = DioConstraints::from_queue(4096, 4095);
    assert_eq!(strict.dma_alignment_mask(true), 4095);
    assert_eq!(strict.dma_alignment_mask(false), 511);
    let lax = DioConstraints::from_queue(512, 3);
    assert_eq!(lax.dma_alignment_mask(true), 511);
    assert_eq!(lax.dma_alignment_mask(false), 511);
}

#[test]
fn default_block_size_follows_the_file_only_in_direct_mode() {
    let c = DioConstraints::from_queue(4096, 511);
    assert_eq!(c.default_block_size(true, MAX), 4096);
    assert_eq!(c.default_block_size(false, MAX), 512);
    for odd in [0, 1, 256, 12288, 2 * MAX] {
        let c = DioConstraints::from_queue(odd, 511);
        assert_eq!(c.default_block_size(true, MAX), 512, "{odd}");
    }
}

proptest! {
    /// The in-tree driver's arithmetic, done in a type that cannot overflow.
    #[test]
    fn capacity_is_that_of_signed_arithmetic(file in bytes(), offset in bytes(), limit in bytes()) {
        let mut size = i128::from(file) - i128::from(offset);
        if limit > 0 {
            size = size.min(i128::from(limit));
        }
        let expected = size.max(0) / 512;
        prop_assert_eq!(i128::from(capacity_sectors(file, offset, limit)), expected);
    }

    #[test]
    fn position_is_exact_or_none(
        sector in prop_oneof![bytes(), bytes().prop_map(|b| b >> SECTOR_SHIFT)],
        offset in bytes(),
    ) {
        let exact = u128::from(sector) * 512 + u128::from(offset);
        let expected = (exact <= u128::from(MAX_POSITION)).then_some(exact);
        prop_assert_eq!(file_position(sector, offset).map(u128::from), expected);
    }

    /// Every sector a device has lies within its file, and within its limit.
    #[test]
    fn every_sector_has_a_position_in_the_file(
        file in 0..=MAX_POSITION,
        offset in bytes(),
        limit in bytes(),
        pick in any::<prop::sample::Index>(),
    ) {
        let sectors = capacity_sectors(file, offset, limit);
        if sectors > 0 {
            let sector = sectors - 1 - pick.index(64) as u64 % sectors;
            let position = file_position(sector, offset);
            prop_assert!(position.is_some_and(|p| p + 512 <= file));
            prop_assert!(limit == 0 || position.is_some_and(|p| p + 512 - offset <= limit));
        }
    }

    #[test]
    fn block_size_is_checked_wholly(bytes in prop_oneof![bytes(), (0..64u32).prop_map(|s| 1 << s), (0..200u64).prop_map(|s| s * 512)]) {
        let good = (9..=16).any(|shift| bytes == 1 << shift);
        match BlockSize::new(bytes, MAX) {
            Ok(None) => prop_assert_eq!(bytes, 0),
            Ok(Some(size)) => {
                prop_assert!(good);
                prop_assert_eq!(u64::from(size.bytes()), bytes);
            }
            Err(_) => prop_assert!(!good && bytes != 0),
        }
    }

    /// What is allowed, a request in whole blocks meets: it is aligned in the file.
    #[test]
    fn dio_allowed_means_aligned(
        unit in prop_oneof![any::<u32>(), (0..32u32).prop_map(|s| 1 << s), 0..20000u32],
        block in (9..=16u32).prop_map(|s| 1u32 << s),
        offset in prop_oneof![bytes(), (0..1u64 << 40).prop_map(|b| b * 4096)],
        index in 0..1u64 << 20,
    ) {
        let allowed = DioConstraints::from_queue(unit, 511).allows(block, offset, true);
        let aligned = |at: u128| unit != 0 && at % u128::from(unit) == 0;
        let at = u128::from(offset) + u128::from(index) * u128::from(block);
        if allowed {
            prop_assert!(aligned(at) && aligned(at + u128::from(block)));
        } else {
            prop_assert!(!aligned(u128::from(offset)) || !aligned(u128::from(block)));
        }
    }

    #[test]
    fn masks_stay_within_a_page_and_above_a_sector(
        unit in any::<u32>(),
        align in any::<u32>(),
        direct in any::<bool>(),
    ) {
        match DioConstraints::from_statx(unit, align, 4096) {
            None => prop_assert_eq!(align, 0),
            Some(c) => {
                prop_assert!(c.mem_align_mask == align - 1 || c.mem_align_mask == 4095);
                prop_assert!((511..4096).contains(&c.dma_alignment_mask(direct)));
            }
        }
    }
}
