// SPDX-License-Identifier: GPL-2.0

//! Checks of the module parameters.
//!
//! A bad value fails the load: [`ParamError`] is the one line for the log.

use core::fmt;

/// Hardware queues of a device if the user asks for none in particular, given that many CPUs.
///
/// As many as the published measurements used; every queue has its own set of requests.
const DEFAULT_HW_QUEUES: u32 = 4;

/// Most hardware queues a user can ask for.
const MAX_HW_QUEUES: i32 = 128;

/// Deepest hardware queue, in requests (`BLK_MQ_MAX_DEPTH`).
pub(crate) const MAX_HW_QUEUE_DEPTH: i32 = 10240;

/// Most minors of a disk, the whole disk's included (`DISK_MAX_PARTS`).
pub(crate) const MAX_DISK_MINORS: i32 = 256;

/// Minors of a block major (`1 << MINORBITS`).
pub(crate) const MAX_MINORS: i32 = 1 << 20;

/// A module parameter out of its bounds.
///
/// Displays as `hw_queue_depth=0: must be 1..=10240`, by [`core::fmt`]: the kernel crate's print
/// macros, which have a trait of their own, take it as `core::format_args!("{error}")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamError {
    /// Name of the parameter.
    name: &'static str,
    /// What the user gave.
    value: i32,
    /// Smallest good value.
    low: i32,
    /// Largest good value.
    high: i32,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            low,
            high,
        } = self;
        write!(f, "{name}={value}: must be {low}..={high}")
    }
}

/// The parameters as the user gave them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawParams {
    /// Hardware queues of each device; 0 for the default.
    pub(crate) nr_hw_queues: i32,
    /// Requests of each hardware queue.
    pub(crate) hw_queue_depth: i32,
    /// Devices to make on load.
    pub(crate) max_loop: i32,
    /// Whether the user gave `max_loop`, which makes it a limit too.
    pub(crate) max_loop_given: bool,
    /// Partitions of each device.
    pub(crate) max_part: i32,
}

/// The parameters, good to use.
///
/// # Invariants
///
/// `1 << part_shift` is at most [`MAX_DISK_MINORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    /// Hardware queues of each device: at least one, no more than CPUs.
    pub(crate) nr_hw_queues: u32,
    /// Requests of each hardware queue.
    pub(crate) hw_queue_depth: u32,
    /// Devices to make on load.
    pub(crate) max_loop: u32,
    /// Partitions of each device: what the user asked for, rounded up to `(1 << part_shift) - 1`.
    pub(crate) max_part: u32,
    /// Minors of each device, as a shift. 0 means partitions use extended minors, and are looked
    /// for only on demand.
    pub(crate) part_shift: u32,
    /// Whether opening a node makes no device beyond `max_loop`.
    limited: bool,
}

impl Params {
    /// Checks the parameters on a machine with `cpus` possible CPUs.
    pub(crate) fn validate(raw: RawParams, cpus: u32) -> Result<Self, ParamError> {
        let cpus = cpus.max(1);
        let asked = bounded("nr_hw_queues", raw.nr_hw_queues, 0, MAX_HW_QUEUES)?;
        let nr_hw_queues = if asked == 0 { DEFAULT_HW_QUEUES } else { asked }.min(cpus);

        let hw_queue_depth = bounded("hw_queue_depth", raw.hw_queue_depth, 1, MAX_HW_QUEUE_DEPTH)?;

        // One minor is the whole disk's. The bound is a power of two, so rounding up keeps to it.
        let max_part = bounded("max_part", raw.max_part, 0, MAX_DISK_MINORS - 1)?;
        let part_shift = max_part.checked_ilog2().map_or(0, |log| log + 1);
        let max_part = (1 << part_shift) - 1;

        let max_loop = bounded("max_loop", raw.max_loop, 0, MAX_MINORS >> part_shift)?;

        // INVARIANT: `max_part` is below `MAX_DISK_MINORS`, so `part_shift` has its bits at most.
        Ok(Self {
            nr_hw_queues,
            hw_queue_depth,
            max_loop,
            max_part,
            part_shift,
            limited: raw.max_loop_given && max_loop > 0,
        })
    }

    /// Whether opening the node of a device that is not there makes the device.
    ///
    /// Only a `max_loop` that the user gave, and not as 0, is a limit.
    pub(crate) fn on_demand_allowed(&self, index: u32) -> bool {
        !self.limited || index < self.max_loop
    }

    /// First minor of a device; `None` if the major has no room for its minors.
    pub(crate) fn first_minor(&self, index: u32) -> Option<u32> {
        let first = index.checked_mul(self.max_part.checked_add(1)?)?;
        (first < MAX_MINORS.unsigned_abs()).then_some(first)
    }

    /// Index of the device that a minor belongs to.
    pub(crate) fn index_of_minor(&self, minor: u32) -> u32 {
        // A shift by more than all bits, which the invariant rules out, would leave nothing.
        minor.checked_shr(self.part_shift).unwrap_or(0)
    }
}

/// The value, if within bounds; `low` is not negative.
fn bounded(name: &'static str, value: i32, low: i32, high: i32) -> Result<u32, ParamError> {
    let error = ParamError {
        name,
        value,
        low,
        high,
    };
    if !(low..=high).contains(&value) {
        return Err(error);
    }
    u32::try_from(value).map_err(|_| error)
}
