// SPDX-License-Identifier: GPL-2.0

//! Counters of a device's submissions.

use crate::policy::Refusal;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::{cpu::CpuId, prelude::*};

/// What is counted of a command.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A try completed in the submitter's task.
    InlineDone,
    /// A try was accepted by the file and completed later.
    InlineQueued,
    /// A try came back unfinished, at once or through the file's completion.
    InlineAgain,
    /// The command was handed to a work item.
    Punted,
    /// The command was not tried, for this reason.
    NotTried(Refusal),
}

/// Counters besides those by reason.
const BASE: usize = 4;

impl Event {
    /// Number of different events.
    const COUNT: usize = BASE + Refusal::ALL.len();

    fn index(self) -> usize {
        match self {
            Self::InlineDone => 0,
            Self::InlineQueued => 1,
            Self::InlineAgain => 2,
            Self::Punted => 3,
            Self::NotTried(refusal) => BASE + refusal.index(),
        }
    }
}

/// One CPU's counters, on cache lines of their own.
#[repr(align(64))]
struct Shard([AtomicU64; Event::COUNT]);

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
                Shard([const { AtomicU64::new(0) }; Event::COUNT]),
                GFP_KERNEL,
            )?;
        }
        Ok(Self(shards))
    }

    /// Counts one event. Any context.
    pub(crate) fn count(&self, event: Event) {
        let cpu = usize::try_from(CpuId::current().as_u32()).unwrap_or(0);
        if let Some(counter) = self.0.get(cpu).and_then(|shard| shard.0.get(event.index())) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins again at zero. Events counted meanwhile may be lost.
    pub(crate) fn reset(&self) {
        for counter in self.0.iter().flat_map(|shard| &shard.0) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// How often an event was counted.
    pub(crate) fn total(&self, event: Event) -> u64 {
        self.0
            .iter()
            .filter_map(|shard| shard.0.get(event.index()))
            .fold(0, |sum, counter| {
                sum.wrapping_add(counter.load(Ordering::Relaxed))
            })
    }
}
