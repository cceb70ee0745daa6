// SPDX-License-Identifier: GPL-2.0

//! Counters of a device's submissions.

use crate::{
    histogram::{self, BUCKETS},
    policy::Refusal,
};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::{cpu::CpuId, prelude::*, time::Delta};

/// What is counted of a command.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A try completed in the submitter's task.
    InlineDone,
    /// A try was accepted by the file and completed later.
    InlineQueued,
    /// A try came back unfinished, at once or through the file's completion.
    InlineAgain,
    /// The command was handed to the relay, which tries it.
    Relayed,
    /// The relay brought the file's times up to date, and tried a WRITE again.
    Stamped,
    /// The command was handed to a work item.
    Punted,
    /// A READ waited for a page without a worker.
    Parked,
    /// A work item transfers bio by bio, for lack of memory to describe all of them.
    InParts,
    /// The command was not tried, for this reason.
    NotTried(Refusal),
}

/// Counters besides those by reason.
const BASE: usize = 8;

impl Event {
    /// Number of different events.
    const COUNT: usize = BASE + Refusal::ALL.len();

    fn index(self) -> usize {
        match self {
            Self::InlineDone => 0,
            Self::InlineQueued => 1,
            Self::InlineAgain => 2,
            Self::Relayed => 3,
            Self::Stamped => 4,
            Self::Punted => 5,
            Self::Parked => 6,
            Self::InParts => 7,
            Self::NotTried(refusal) => BASE + refusal.index(),
        }
    }
}

/// One CPU's counters, on cache lines of their own.
#[repr(align(64))]
struct Shard {
    events: [AtomicU64; Event::COUNT],
    waits: [AtomicU64; BUCKETS],
}

/// The counters of a device: one set per CPU, added up by readers. A count may land in the set of
/// a CPU that the task has just left; nothing is lost by that.
pub(crate) struct Stats(KVec<Shard>);

impl Stats {
    /// All zero. `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let cpus = usize::try_from(kernel::cpu::nr_cpu_ids())?;
        let mut shards = KVec::with_capacity(cpus, GFP_KERNEL)?;
        for _ in 0..cpus {
            shards.push(
                Shard {
                    events: [const { AtomicU64::new(0) }; Event::COUNT],
                    waits: [const { AtomicU64::new(0) }; BUCKETS],
                },
                GFP_KERNEL,
            )?;
        }
        Ok(Self(shards))
    }

    /// Counts one event. Any context.
    pub(crate) fn count(&self, event: Event) {
        self.add_one(|shard| shard.events.get(event.index()));
    }

    /// Counts a command that has waited so long for its work item to begin. Any context.
    pub(crate) fn count_wait(&self, wait: Delta) {
        let bucket = histogram::bucket(u64::try_from(wait.as_nanos()).unwrap_or(0));
        self.add_one(|shard| shard.waits.get(bucket));
    }

    fn add_one(&self, select: impl FnOnce(&Shard) -> Option<&AtomicU64>) {
        let cpu = usize::try_from(CpuId::current().as_u32()).unwrap_or(0);
        if let Some(counter) = self.0.get(cpu).and_then(select) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins again at zero. Events counted meanwhile may be lost.
    pub(crate) fn reset(&self) {
        for shard in &self.0 {
            for counter in Iterator::chain(shard.events.iter(), &shard.waits) {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }

    /// How often an event was counted.
    pub(crate) fn total(&self, event: Event) -> u64 {
        self.sum(|shard| shard.events.get(event.index()))
    }

    /// How many commands have waited for their work item for times of each bucket.
    pub(crate) fn waits(&self) -> [u64; BUCKETS] {
        core::array::from_fn(|bucket| self.sum(|shard| shard.waits.get(bucket)))
    }

    fn sum(&self, select: impl Fn(&Shard) -> Option<&AtomicU64>) -> u64 {
        self.0.iter().filter_map(select).fold(0, |sum, counter| {
            sum.wrapping_add(counter.load(Ordering::Relaxed))
        })
    }
}
