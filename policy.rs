// SPDX-License-Identifier: GPL-2.0

//! Whether to try a command in the task that submits it, or to hand it to a work item at once.
//!
//! A try calls the backing file with `IOCB_NOWAIT` from `queue_rq`. Three questions come first, and
//! the answer is a [`Refusal`] as soon as one says no:
//!
//! 1. may this kind of command be tried under the device's [`Mode`]: [`op_allowed`];
//! 2. is the task in a state in which a file system can be called: [`check_context`];
//! 3. in [`Mode::Auto`], is a direct write likely to succeed: [`WritePolicy`].
//!
//! What is refused is punted, which always works. The first question is about sense and the third
//! about speed; the second is about safety, and no mode overrides it.
//!
//! What may be tried there may as well be tried elsewhere, with others: [`relays`].

use core::ffi::CStr;

/// The `nowait` parameter of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Try reads always, and direct writes by their recent success; direct ones by the relay if many
    /// are under way.
    Auto,
    /// Try reads and direct writes always, where they are submitted.
    Always,
    /// Try reads only.
    Reads,
    /// Try nothing.
    Never,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Auto, Self::Always, Self::Reads, Self::Never];

    /// The mode as a number, to be stored.
    pub(crate) fn index(self) -> u8 {
        // The discriminant counts from 0 in the order of the declaration.
        self as u8
    }

    /// The mode of this number; what is none of [`Mode::index`] is taken for [`Mode::Never`].
    pub(crate) fn from_index(index: u8) -> Self {
        Self::ALL
            .into_iter()
            .find(|mode| mode.index() == index)
            .unwrap_or(Self::Never)
    }

    /// The mode of this name; a newline after it does not matter.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|mode| mode.name().as_bytes() == text)
    }

    /// Name in the parameter and in sysfs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Reads => "reads",
            Self::Never => "never",
        }
    }
}

/// A command, as far as the decision goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// READ with direct I/O.
    Read,
    /// READ through the page cache.
    BufferedRead,
    /// WRITE with direct I/O.
    DirectWrite,
    /// WRITE through the page cache.
    BufferedWrite,
    /// FLUSH.
    Flush,
    /// DISCARD.
    Discard,
    /// WRITE_ZEROES.
    WriteZeroes,
}

/// Why a command was not tried in its submitter's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A command of this kind would block, or has no way to say that it would.
    Op,
    /// The device's [`Mode`] or its [`WritePolicy`] says no.
    Policy,
    /// The file knows no `IOCB_NOWAIT`, or its file system has not been reviewed for this.
    Filesystem,
    /// `current->journal_info` is set: the task is in a transaction of another file system.
    Journal,
    /// `PF_MEMALLOC_NOFS`: the same, for file systems that keep no `journal_info`.
    Nofs,
    /// `PF_MEMALLOC_NOIO`: the task must not wait for I/O. A try within a try shows up here too.
    Noio,
    /// `PF_MEMALLOC`: the task is reclaiming memory. Or there is none to describe the command with.
    Reclaim,
    /// Too little of the kernel stack is left for a file system and the devices below it.
    Stack,
    /// The task is a workqueue worker, which others wait for.
    Worker,
    /// The task's plug holds requests of other queues, whose tags the try might wait for.
    Plug,
    /// The command is to be charged to another cgroup than the task's.
    Cgroup,
    /// A write, and the task's `RLIMIT_FSIZE` would be held against the backing file.
    Rlimit,
    /// The backing file system is being frozen, or is.
    Frozen,
    /// The system is going to sleep.
    Freezer,
}

impl Refusal {
    /// Every reason, in the order of [`Refusal::index`].
    pub(crate) const ALL: [Self; 14] = [
        Self::Op,
        Self::Policy,
        Self::Filesystem,
        Self::Journal,
        Self::Nofs,
        Self::Noio,
        Self::Reclaim,
        Self::Stack,
        Self::Worker,
        Self::Plug,
        Self::Cgroup,
        Self::Rlimit,
        Self::Frozen,
        Self::Freezer,
    ];

    /// Whether this build leaves the guard out, to show what it is for (`Kbuild`).
    pub(crate) const fn is_left_out(self) -> bool {
        match self {
            Self::Filesystem => cfg!(without_filesystem),
            Self::Journal => cfg!(without_journal),
            Self::Nofs => cfg!(without_nofs),
            Self::Noio => cfg!(without_noio),
            Self::Reclaim => cfg!(without_reclaim),
            Self::Stack => cfg!(without_stack),
            Self::Worker => cfg!(without_worker),
            Self::Plug => cfg!(without_plug),
            Self::Cgroup => cfg!(without_cgroup),
            Self::Rlimit => cfg!(without_rlimit),
            Self::Frozen => cfg!(without_frozen),
            Self::Freezer => cfg!(without_freezer),
            Self::Op | Self::Policy => false,
        }
    }

    /// Its name in the counters of sysfs and in trace events.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Op => c"op",
            Self::Policy => c"policy",
            Self::Filesystem => c"filesystem",
            Self::Journal => c"journal",
            Self::Nofs => c"nofs",
            Self::Noio => c"noio",
            Self::Reclaim => c"reclaim",
            Self::Stack => c"stack",
            Self::Worker => c"worker",
            Self::Plug => c"plug",
            Self::Cgroup => c"cgroup",
            Self::Rlimit => c"rlimit",
            Self::Frozen => c"frozen",
            Self::Freezer => c"freezer",
        }
    }

    /// Place in [`Refusal::ALL`], for an array of counters.
    pub(crate) fn index(self) -> usize {
        // The discriminant counts from 0 in the order of the declaration.
        self as usize
    }
}

/// Whether a command of this kind may be tried under a mode.
///
/// [`Refusal::Op`] for what no mode tries, else [`Refusal::Policy`] for what this one does not.
/// [`Mode::Auto`] allows a direct write here; the caller asks [`WritePolicy`] as well.
pub(crate) fn op_allowed(mode: Mode, op: Op) -> Result<(), Refusal> {
    let write = match op {
        Op::Read | Op::BufferedRead => false,
        Op::DirectWrite => true,
        Op::BufferedWrite | Op::Flush | Op::Discard | Op::WriteZeroes => return Err(Refusal::Op),
    };
    match mode {
        Mode::Auto | Mode::Always => Ok(()),
        Mode::Reads if !write => Ok(()),
        Mode::Reads | Mode::Never => Err(Refusal::Policy),
    }
}

/// Facts about the task that submits a command, and about the command it submits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// `current->journal_info` is not null.
    pub(crate) journal_info: bool,
    /// `PF_MEMALLOC_NOFS` is set.
    pub(crate) nofs: bool,
    /// `PF_MEMALLOC_NOIO` is set.
    pub(crate) noio: bool,
    /// `PF_MEMALLOC` is set.
    pub(crate) memalloc: bool,
    /// Bytes of kernel stack left.
    pub(crate) stack_left: usize,
    /// The task is a workqueue worker.
    pub(crate) workqueue_worker: bool,
    /// The task's plug holds requests of other queues than the command's.
    pub(crate) plugged_with_others: bool,
    /// The command's bio belongs to another blkcg than the task.
    pub(crate) foreign_cgroup: bool,
    /// The command is a write, and the task has a limit for the size of files.
    pub(crate) file_size_limited: bool,
    /// A suspend or hibernation is freezing tasks.
    pub(crate) freezer_active: bool,
}

/// Whether a file system can be called from this task; at least `stack_floor` bytes must be left.
///
/// Of several reasons the first in the order of [`Refusal::ALL`] is told. The order goes from the
/// narrowest cause to the widest, so that the counters explain most: a jbd2 transaction is also
/// NOFS, and is counted as journal.
pub(crate) fn check_context(context: &Context, stack_floor: usize) -> Result<(), Refusal> {
    let reasons = [
        (context.journal_info, Refusal::Journal),
        (context.nofs, Refusal::Nofs),
        (context.noio, Refusal::Noio),
        (context.memalloc, Refusal::Reclaim),
        (context.stack_left < stack_floor, Refusal::Stack),
        (context.workqueue_worker, Refusal::Worker),
        (context.plugged_with_others, Refusal::Plug),
        (context.foreign_cgroup, Refusal::Cgroup),
        (context.file_size_limited, Refusal::Rlimit),
        (context.freezer_active, Refusal::Freezer),
    ];
    let reason = reasons
        .into_iter()
        .find(|&(applies, refusal)| applies && !refusal.is_left_out());
    match reason {
        Some((_, refusal)) => Err(refusal),
        None => Ok(()),
    }
}

/// What else is under way when commands are submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// More than one CPU is online.
    pub(crate) several_cpus: bool,
    /// Other commands of the same hardware queue.
    pub(crate) others: usize,
    /// Commands that the relay has yet to take.
    pub(crate) backlog: usize,
}

/// With at least as many others under way, tries are the relay's.
const LEAST_OTHERS: usize = 2;

/// Most commands that wait for the relay: as many as it gets rid of in one plug, twice.
const MOST_BACKLOG: usize = 64;

/// Whether the relay makes the tries of direct I/O in [`Mode::Auto`], in place of the submitter.
///
/// A command that is alone is tried at once where it is submitted: somebody waits for it, and a worker
/// has to be woken first. With others under way the latency of one matters less than how many get
/// through: the relay submits what has come meanwhile in one go, and the submitter's CPU goes on with
/// its own. If the relay is behind, submitters do not wait for it: it has one CPU, they may have many.
pub(crate) fn relays(load: &Load) -> bool {
    load.several_cpus && load.others >= LEAST_OTHERS && load.backlog < MOST_BACKLOG
}

/// How a tried write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file took it, whether or not it is finished by now.
    Accepted,
    /// The file would have had to wait.
    Again,
}

/// Decides which direct writes are worth a try in [`Mode::Auto`].
///
/// The machine has a level `L`, 0 to [`WritePolicy::MAX_LEVEL`], and a number of writes still to be
/// skipped. At level `L` one write of `2^L` is tried.
///
/// - A write is tried if none is to be skipped, else it uses up one skip. A try arms the skips of
///   the present level, so that no second try goes out while the first one's outcome is open.
/// - [`Outcome::Again`] raises the level by one, [`Outcome::Accepted`] halves it, rounding down.
///   Either arms the skips of the new level, `2^L - 1`.
/// - Writes that block meanwhile do not matter by themselves: if one holds what a try needs, the
///   try comes back, and the level rises. To try nothing until none blocks would leave a queue that
///   is never empty with the workers for good, after a single try that came back.
///
/// It starts at level 0, where every write is tried and success leaves the word as it is. Writes
/// that all fail bring it to the top level within six tries, and then cost one vain try in 64. From
/// there, three tries that succeed, within 74 writes, bring it back to level 0. One failure among
/// successes costs one skipped write.
///
/// The state is one word, so that it can live in an atomic with relaxed loads and stores, with no
/// read-modify-write. Concurrent updates may get lost, and a stale one may win: then a few writes
/// more or fewer are tried, and all are right either way. Every bit pattern is a valid state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WritePolicy(u32);

impl WritePolicy {
    /// The highest level: one write of 64 is tried.
    const MAX_LEVEL: u32 = 6;

    /// The level is in the low bits, the skips are above.
    const LEVEL_BITS: u32 = 8;

    /// The state from its word; 0 is where a device starts.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The state as a word.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Whether to try this write, and the state after that decision.
    pub(crate) fn decide(self) -> (bool, Self) {
        match self.skips().checked_sub(1) {
            Some(skips) => (false, Self::new(self.level(), skips)),
            None => (true, Self::armed(self.level())),
        }
    }

    /// The state after the outcome of a try.
    ///
    /// Recorded once for each try, when the outcome is certain: a write that the file queued and
    /// that comes back with `EAGAIN` is one [`Outcome::Again`], and no [`Outcome::Accepted`].
    #[must_use]
    pub(crate) fn record(self, outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::armed(self.level() / 2),
            Outcome::Again => Self::armed(self.level().saturating_add(1).min(Self::MAX_LEVEL)),
        }
    }

    /// A state with these parts, `level` being no more than [`WritePolicy::MAX_LEVEL`].
    fn new(level: u32, skips: u32) -> Self {
        Self(skips << Self::LEVEL_BITS | level)
    }

    /// The state that comes after a try at this level.
    fn armed(level: u32) -> Self {
        Self::new(level, Self::skips_at(level))
    }

    /// Writes to skip between two tries at this level.
    fn skips_at(level: u32) -> u32 {
        (1 << level.min(Self::MAX_LEVEL)) - 1
    }

    /// The present level, 0 to [`WritePolicy::MAX_LEVEL`].
    pub(crate) fn level(self) -> u32 {
        (self.0 & ((1 << Self::LEVEL_BITS) - 1)).min(Self::MAX_LEVEL)
    }

    /// Writes still to be skipped, never more than the present level asks for.
    fn skips(self) -> u32 {
        (self.0 >> Self::LEVEL_BITS).min(Self::skips_at(self.level()))
    }
}
