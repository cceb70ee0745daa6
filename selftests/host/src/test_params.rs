// SPDX-License-Identifier: GPL-2.0

use crate::params::*;
use proptest::prelude::*;

const RAW: RawParams = RawParams {
    nr_hw_queues: 0,
    hw_queue_depth: 128,
    max_loop: 8,
    max_loop_given: false,
    max_part: 0,
};

fn error(raw: RawParams) -> String {
    match Params::validate(raw, 4) {
        Ok(params) => panic!("{raw:?} was taken as {params:?}"),
        Err(error) => error.to_string(),
    }
}

fn good(raw: RawParams) -> Params {
    Params::validate(raw, 4).unwrap()
}

#[test]
fn the_defaults_are_good() {
    let params = good(RAW);
    assert_eq!(params.nr_hw_queues, 4);
    assert_eq!(params.hw_queue_depth, 128);
    assert_eq!(params.max_loop, 8);
    assert_eq!(params.max_part, 0);
    assert_eq!(params.part_shift, 0);
}

#[test]
fn hw_queues_by_default_follow_the_cpus() {
    let queues = |cpus| Params::validate(RAW, cpus).map(|params| params.nr_hw_queues);
    for (cpus, expected) in [(0, 1), (1, 1), (2, 2), (4, 4), (5, 4), (512, 4)] {
        assert_eq!(queues(cpus), Ok(expected), "{cpus} CPUs");
    }
}

#[test]
fn hw_queues_asked_for_are_capped_by_the_cpus() {
    let queues = |nr_hw_queues, cpus| {
        let raw = RawParams {
            nr_hw_queues,
            ..RAW
        };
        Params::validate(raw, cpus).map(|params| params.nr_hw_queues)
    };
    assert_eq!(queues(1, 8), Ok(1));
    assert_eq!(queues(8, 8), Ok(8));
    assert_eq!(queues(8, 2), Ok(2));
    assert_eq!(queues(128, 256), Ok(128));
    assert_eq!(queues(1, 0), Ok(1));
}

#[test]
fn errors_are_one_clear_line() {
    assert_eq!(
        error(RawParams {
            nr_hw_queues: -1,
            ..RAW
        }),
        "nr_hw_queues=-1: must be 0..=128"
    );
    assert_eq!(
        error(RawParams {
            nr_hw_queues: 129,
            ..RAW
        }),
        "nr_hw_queues=129: must be 0..=128"
    );
    assert_eq!(
        error(RawParams {
            hw_queue_depth: 0,
            ..RAW
        }),
        "hw_queue_depth=0: must be 1..=10240"
    );
    assert_eq!(
        error(RawParams {
            hw_queue_depth: 10241,
            ..RAW
        }),
        "hw_queue_depth=10241: must be 1..=10240"
    );
    assert_eq!(
        error(RawParams {
            max_part: 256,
            ..RAW
        }),
        "max_part=256: must be 0..=255"
    );
    assert_eq!(
        error(RawParams {
            max_part: -1,
            ..RAW
        }),
        "max_part=-1: must be 0..=255"
    );
    assert_eq!(
        error(RawParams {
            max_loop: -1,
            ..RAW
        }),
        "max_loop=-1: must be 0..=1048576"
    );
    // The bound depends on the partitions asked for.
    assert_eq!(
        error(RawParams {
            max_loop: 65537,
            max_part: 15,
            ..RAW
        }),
        "max_loop=65537: must be 0..=65536"
    );
}

#[test]
fn the_bounds_themselves_are_good() {
    for hw_queue_depth in [1, 10240] {
        let params = good(RawParams {
            hw_queue_depth,
            ..RAW
        });
        assert_eq!(params.hw_queue_depth, hw_queue_depth as u32);
    }
    let params = good(RawParams {
        max_loop: 1 << 20,
        ..RAW
    });
    assert_eq!(params.max_loop, 1 << 20);
    let params = good(RawParams {
        max_loop: 1 << 12,
        max_part: 255,
        ..RAW
    });
    assert_eq!(params.max_loop, 1 << 12);
}

#[test]
fn max_part_rounds_up_to_whole_shifts() {
    for (asked, shift, rounded) in [
        (0, 0, 0),
        (1, 1, 1),
        (2, 2, 3),
        (3, 2, 3),
        (4, 3, 7),
        (15, 4, 15),
        (16, 5, 31),
        (63, 6, 63),
        (128, 8, 255),
        (255, 8, 255),
    ] {
        let params = good(RawParams {
            max_part: asked,
            ..RAW
        });
        assert_eq!((params.part_shift, params.max_part), (shift, rounded));
    }
}

#[test]
fn max_loop_limits_only_if_given_and_not_zero() {
    let allowed = |max_loop, max_loop_given, index| {
        good(RawParams {
            max_loop,
            max_loop_given,
            ..RAW
        })
        .on_demand_allowed(index)
    };
    assert!(allowed(8, false, 8));
    assert!(allowed(8, false, 1000));
    assert!(allowed(8, true, 7));
    assert!(!allowed(8, true, 8));
    assert!(!allowed(8, true, u32::MAX));
    assert!(allowed(0, true, 0));
    assert!(allowed(0, true, 1000));
}

#[test]
fn minors_of_a_device() {
    let plain = good(RAW);
    assert_eq!(plain.first_minor(3), Some(3));
    assert_eq!(plain.index_of_minor(3), 3);
    assert_eq!(plain.first_minor((1 << 20) - 1), Some((1 << 20) - 1));
    assert_eq!(plain.first_minor(1 << 20), None);
    assert_eq!(plain.first_minor(u32::MAX), None);

    let parts = good(RawParams {
        max_part: 15,
        ..RAW
    });
    assert_eq!(parts.first_minor(3), Some(48));
    assert_eq!(parts.index_of_minor(48), 3);
    assert_eq!(parts.index_of_minor(63), 3);
    assert_eq!(parts.index_of_minor(64), 4);
    assert_eq!(parts.first_minor(65535), Some((1 << 20) - 16));
    assert_eq!(parts.first_minor(65536), None);
    // Would come out as minor 0 if the shift dropped bits.
    assert_eq!(parts.first_minor(1 << 28), None);
}

/// A value of a parameter with these bounds: mostly within, often just within or just beyond.
fn value(low: i32, high: i32) -> impl Strategy<Value = i32> {
    let edges = prop::sample::select(vec![low - 1, low, high, high + 1]);
    prop_oneof![4 => low..=high, 2 => edges, 1 => any::<i32>()]
}

prop_compose! {
    fn any_raw()(max_part in value(0, 255), shift in 12..=20u32)(
        nr_hw_queues in value(0, 128),
        hw_queue_depth in value(1, 10240),
        max_loop in value(0, 1 << shift),
        max_part in Just(max_part),
        max_loop_given in any::<bool>(),
    ) -> RawParams {
        RawParams { nr_hw_queues, hw_queue_depth, max_loop, max_loop_given, max_part }
    }
}

prop_compose! {
    /// Each within its bounds.
    fn good_raw()(
        nr_hw_queues in 0..=128i32,
        hw_queue_depth in 1..=10240i32,
        max_part in 0..=255i32,
        max_loop in 0..=4096i32,
        max_loop_given in any::<bool>(),
    ) -> RawParams {
        RawParams { nr_hw_queues, hw_queue_depth, max_loop, max_loop_given, max_part }
    }
}

/// Indices with and without minors, some at the edge.
fn indices() -> impl Strategy<Value = u32> {
    let edge = (12..=20u32, 0..3u32).prop_map(|(shift, d)| (1 << shift) + 1 - d);
    prop_oneof![0..1u32 << 21, edge, any::<u32>()]
}

proptest! {
    /// Taken exactly if every value is within its bounds. No value makes a panic.
    #[test]
    fn bounds_are_exact(raw in any_raw(), cpus in any::<u32>()) {
        let minors = (u64::from(raw.max_part.unsigned_abs()) + 1).next_power_of_two();
        let within = (0..=128).contains(&raw.nr_hw_queues)
            && (1..=10240).contains(&raw.hw_queue_depth)
            && (0..=255).contains(&raw.max_part)
            && raw.max_loop >= 0
            && raw.max_loop.unsigned_abs() as u64 * minors <= 1 << 20;
        prop_assert_eq!(Params::validate(raw, cpus).is_ok(), within);
    }

    #[test]
    fn good_params_hold_together(raw in good_raw(), cpus in 0..300u32) {
        let p = Params::validate(raw, cpus).unwrap();
        prop_assert!((1..=128).contains(&p.nr_hw_queues) && p.nr_hw_queues <= cpus.max(1));
        prop_assert!(p.max_part >= raw.max_part as u32);
        prop_assert!(p.max_part == 0 || p.max_part < 2 * raw.max_part as u32);
        prop_assert_eq!(p.max_part + 1, 1 << p.part_shift);
        // Every device made on load has its minors.
        prop_assert!(p.max_loop == 0 || p.first_minor(p.max_loop - 1).is_some());
    }

    /// Each minor belongs to one device, and the device's first minors are its own.
    #[test]
    fn minors_and_indices_agree(raw in good_raw(), minor in 0..1u32 << 20, index in indices()) {
        let p = Params::validate(raw, 4).unwrap();
        let first = p.first_minor(p.index_of_minor(minor)).unwrap();
        prop_assert!((first..=first + p.max_part).contains(&minor));
        match p.first_minor(index) {
            Some(first) => {
                prop_assert!(first + p.max_part < 1 << 20);
                prop_assert_eq!(p.index_of_minor(first), index);
                prop_assert_eq!(p.index_of_minor(first + p.max_part), index);
            }
            None => prop_assert!(u64::from(index) << p.part_shift >= 1 << 20),
        }
    }
}
