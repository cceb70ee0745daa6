// SPDX-License-Identifier: GPL-2.0

use crate::policy::*;
use proptest::prelude::*;

const MODES: [Mode; 4] = [Mode::Auto, Mode::Always, Mode::Reads, Mode::Never];
const FLOOR: usize = 8192;

/// A context nothing speaks against.
const CLEAN: Context = Context {
    journal_info: false,
    nofs: false,
    noio: false,
    memalloc: false,
    stack_left: FLOOR,
    workqueue_worker: false,
    plugged_with_others: false,
    foreign_cgroup: false,
    file_size_limited: false,
    freezer_active: false,
};

/// Makes a context worse.
type Spoil = fn(&mut Context);

/// Each fact alone, and the reason it is.
fn facts() -> [(Refusal, Spoil); 10] {
    [
        (Refusal::Journal, |c| c.journal_info = true),
        (Refusal::Nofs, |c| c.nofs = true),
        (Refusal::Noio, |c| c.noio = true),
        (Refusal::Reclaim, |c| c.memalloc = true),
        (Refusal::Stack, |c| c.stack_left = FLOOR - 1),
        (Refusal::Worker, |c| c.workqueue_worker = true),
        (Refusal::Plug, |c| c.plugged_with_others = true),
        (Refusal::Cgroup, |c| c.foreign_cgroup = true),
        (Refusal::Rlimit, |c| c.file_size_limited = true),
        (Refusal::Freezer, |c| c.freezer_active = true),
    ]
}

#[test]
fn modes_have_names() {
    for (mode, name) in MODES.into_iter().zip(["auto", "always", "reads", "never"]) {
        assert_eq!(mode.name(), name);
        assert_eq!(Mode::parse(name.as_bytes()), Some(mode));
        assert_eq!(Mode::parse(format!("{name}\n").as_bytes()), Some(mode));
    }
    for bad in [
        "",
        "\n",
        "Auto",
        "auto ",
        " auto",
        "aut",
        "autox",
        "never\n\n",
        "auto\0",
        "0",
    ] {
        assert_eq!(Mode::parse(bad.as_bytes()), None, "{bad:?}");
    }
}

#[test]
fn modes_are_stored_as_numbers() {
    for mode in MODES {
        assert_eq!(Mode::from_index(mode.index()), mode);
    }
    for other in [4, u8::MAX] {
        assert_eq!(Mode::from_index(other), Mode::Never, "nothing is tried");
    }
}

#[test]
fn reads_are_tried_unless_never() {
    for op in [Op::Read, Op::BufferedRead] {
        for mode in [Mode::Auto, Mode::Always, Mode::Reads] {
            assert_eq!(op_allowed(mode, op), Ok(()));
        }
        assert_eq!(op_allowed(Mode::Never, op), Err(Refusal::Policy));
    }
}

#[test]
fn direct_writes_are_tried_unless_reads_or_never() {
    for mode in [Mode::Auto, Mode::Always] {
        assert_eq!(op_allowed(mode, Op::DirectWrite), Ok(()));
    }
    for mode in [Mode::Reads, Mode::Never] {
        assert_eq!(op_allowed(mode, Op::DirectWrite), Err(Refusal::Policy));
    }
}

#[test]
fn the_rest_is_never_tried() {
    for op in [Op::BufferedWrite, Op::Flush, Op::Discard, Op::WriteZeroes] {
        for mode in MODES {
            assert_eq!(op_allowed(mode, op), Err(Refusal::Op), "{mode:?} {op:?}");
        }
    }
}

#[test]
fn refusals_are_numbered() {
    for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
        assert_eq!(refusal.index(), index);
    }
}

#[test]
fn a_clean_context_is_free_to_try() {
    assert_eq!(check_context(&CLEAN, FLOOR), Ok(()));
    assert_eq!(check_context(&CLEAN, 0), Ok(()));
    assert_eq!(check_context(&CLEAN, FLOOR + 1), Err(Refusal::Stack));
}

#[test]
fn each_fact_alone_refuses_for_its_own_reason() {
    for (refusal, set) in facts() {
        let mut context = CLEAN;
        set(&mut context);
        assert_eq!(check_context(&context, FLOOR), Err(refusal));
    }
}

#[test]
fn of_two_facts_the_earlier_in_the_list_is_told() {
    for (first, set_first) in facts() {
        for (second, set_second) in facts() {
            let mut context = CLEAN;
            set_first(&mut context);
            set_second(&mut context);
            let told = if first.index() < second.index() {
                first
            } else {
                second
            };
            assert_eq!(check_context(&context, FLOOR), Err(told));
        }
    }
}

/// Feeds writes to a policy, `outcome` being what a try of the nth comes to; counts the tries.
fn run(
    policy: &mut WritePolicy,
    writes: usize,
    mut outcome: impl FnMut(usize) -> Outcome,
) -> usize {
    let mut tries = 0;
    for write in 0..writes {
        let (try_it, next) = policy.decide();
        *policy = next;
        if try_it {
            tries += 1;
            *policy = policy.record(outcome(write));
        }
    }
    tries
}

fn again(_: usize) -> Outcome {
    Outcome::Again
}

fn accepted(_: usize) -> Outcome {
    Outcome::Accepted
}

#[test]
fn a_device_starts_by_trying_and_success_leaves_the_word_alone() {
    let policy = WritePolicy::from_bits(0);
    assert_eq!(policy, WritePolicy::default());
    assert_eq!(policy.decide(), (true, policy));
    assert_eq!(policy.record(Outcome::Accepted), policy);
}

#[test]
fn failure_backs_off_by_doubling() {
    let mut policy = WritePolicy::default();
    let mut tried = Vec::new();
    run(&mut policy, 256, |write| {
        tried.push(write);
        Outcome::Again
    });
    let gaps: Vec<_> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(tried[0], 0);
    assert_eq!(gaps, [2, 4, 8, 16, 32, 64, 64, 64]);
}

#[test]
fn recovery_takes_three_tries() {
    let mut policy = WritePolicy::default();
    // A failed try at the top level is the last of these.
    run(&mut policy, 127, again);
    let mut tried = Vec::new();
    run(&mut policy, 76, |write| {
        tried.push(write);
        Outcome::Accepted
    });
    assert_eq!(tried, [63, 71, 73, 74, 75]);
}

#[test]
fn one_failure_costs_one_skip() {
    let mut policy = WritePolicy::default();
    let tries = run(&mut policy, 100, |write| match write {
        10 => Outcome::Again,
        _ => Outcome::Accepted,
    });
    assert_eq!(tries, 99);
    assert_eq!(run(&mut policy, 100, accepted), 100);
}

#[test]
fn no_second_try_while_the_first_is_open() {
    let mut policy = WritePolicy::default();
    run(&mut policy, 1000, again);
    let mut tries = 0;
    for _ in 0..64 {
        let (try_it, next) = policy.decide();
        policy = next;
        tries += usize::from(try_it);
    }
    assert_eq!(tries, 1);
}

/// A queue that is never empty: what is not tried, or comes back, blocks until `behind` writes more
/// were submitted, and tries come back while one does.
#[test]
fn a_constant_queue_comes_back_to_tries() {
    const BEHIND: usize = 16;
    let mut policy = WritePolicy::default();
    let mut stale_until = 0;
    let tries = run(&mut policy, 10_000, |write| {
        if write % 1000 == 0 {
            stale_until = write + BEHIND;
        }
        if write < stale_until {
            Outcome::Again
        } else {
            Outcome::Accepted
        }
    });
    assert!(tries > 9_500, "{tries}");
}

/// Under which it is the relay's.
const MANY: Load = Load {
    several_cpus: true,
    others: 2,
    backlog: 0,
};

#[test]
fn relays_with_others_under_way_only() {
    assert!(relays(&MANY));
    for others in [0, 1] {
        assert!(!relays(&Load { others, ..MANY }));
    }
}

#[test]
fn relays_to_another_cpu_only() {
    assert!(!relays(&Load {
        several_cpus: false,
        ..MANY
    }));
}

proptest! {
    /// Submitters do not wait for a relay that is behind.
    #[test]
    fn the_backlog_is_bounded(others in 0..1000usize, backlog in 0..1000usize) {
        let load = Load { others, backlog, ..MANY };
        prop_assert_eq!(relays(&load), others >= 2 && backlog < 64);
    }

    /// No combination of facts is taken unless all are clean, whatever the mode.
    #[test]
    fn context_is_clean_or_refused(
        bits in prop::array::uniform9(prop::bool::weighted(0.2)),
        stack_left in 0..2 * FLOOR,
        floor in 0..2 * FLOOR,
    ) {
        let [
            journal_info,
            nofs,
            noio,
            memalloc,
            workqueue_worker,
            plugged_with_others,
            foreign_cgroup,
            file_size_limited,
            freezer_active,
        ] = bits;
        let context = Context {
            journal_info,
            nofs,
            noio,
            memalloc,
            stack_left,
            workqueue_worker,
            plugged_with_others,
            foreign_cgroup,
            file_size_limited,
            freezer_active,
        };
        let clean = bits == [false; 9] && stack_left >= floor;
        prop_assert_eq!(check_context(&context, floor).is_ok(), clean);
    }

    /// From any word at all, even one no policy has written.
    #[test]
    fn tries_that_fail_are_a_bounded_share(bits in any::<u32>(), writes in 0..5000usize) {
        let mut policy = WritePolicy::from_bits(bits);
        let tries = run(&mut policy, writes, again);
        prop_assert!(tries <= 7 + writes / 64, "{tries} of {writes}");
        // It never gives up either.
        prop_assert!(tries >= writes / 64);
    }

    /// Bounded over any stretch of writes that follows failure, not only from the start.
    #[test]
    fn failure_stays_bounded(history in any::<u32>(), at in 200..5000usize, len in 0..1000usize) {
        let mut policy = WritePolicy::from_bits(history);
        run(&mut policy, at, again);
        prop_assert!(run(&mut policy, len, again) <= 1 + len / 64);
    }

    #[test]
    fn recovers_within_74_writes(bits in any::<u32>()) {
        let mut policy = WritePolicy::from_bits(bits);
        let tries = run(&mut policy, 74, accepted);
        prop_assert!(tries >= 3);
        prop_assert_eq!(run(&mut policy, 1000, accepted), 1000);
    }

    /// Writes that fail one time in `n` are still mostly tried.
    #[test]
    fn rare_failures_hardly_matter(n in 4..100usize, phase in 0..100usize) {
        let mut policy = WritePolicy::default();
        let tries = run(&mut policy, 10_000, |write| match (write + phase) % n {
            0 => Outcome::Again,
            _ => Outcome::Accepted,
        });
        prop_assert!(tries >= 10_000 - 10_000 / n - 2, "{tries}");
    }

    /// Lost and stale updates, as concurrent relaxed loads and stores make them, break no bound.
    #[test]
    fn lost_updates_do_no_lasting_harm(
        seed in any::<u32>(),
        races in prop::collection::vec((any::<bool>(), any::<bool>()), 0..500),
    ) {
        let mut word = WritePolicy::from_bits(seed);
        let mut stale = word;
        for (outcome, lose) in races {
            let (try_it, next) = word.decide();
            let outcome = if outcome { Outcome::Accepted } else { Outcome::Again };
            let next = if try_it { next.record(outcome) } else { next };
            let old = word;
            word = if lose { stale } else { next };
            stale = old;
        }
        let mut failing = word;
        prop_assert!(run(&mut failing, 640, again) <= 17);
        run(&mut word, 74, accepted);
        prop_assert_eq!(run(&mut word, 100, accepted), 100);
    }

    /// Outcomes that come late and in any order keep the word valid.
    #[test]
    fn late_outcomes_keep_the_bounds(outcomes in prop::collection::vec(any::<bool>(), 0..200)) {
        let mut policy = WritePolicy::default();
        for accepted in outcomes {
            policy = policy.record(if accepted { Outcome::Accepted } else { Outcome::Again });
            prop_assert_eq!(WritePolicy::from_bits(policy.bits()), policy);
        }
        // At most 63 writes until the next try.
        prop_assert!(run(&mut policy, 64, again) >= 1);
    }
}
