// SPDX-License-Identifier: GPL-2.0

//! One loop device: its states, what binds it to a file, and every change of that.
//!
//! | state      | entered by                                     | left by                        |
//! |------------|------------------------------------------------|--------------------------------|
//! | `Unbound`  | creation, end of the unbinding                 | binding, removal               |
//! | `Bound`    | LOOP_CONFIGURE, LOOP_SET_FD                    | LOOP_CLR_FD, autoclear         |
//! | `Rundown`  | LOOP_CLR_FD by the only opener, or last close  | end of the unbinding           |
//! | `Deleting` | LOOP_CTL_REMOVE                                | never                          |
//!
//! Lock order: see `Documentation/internals.rst`.

use crate::{
    geometry::{self, BlockSize, DioConstraints},
    kapi::{
        bdev::{BlockDevice, OpenMode},
        bindings,
        blk_mq::{Batch, Driver, Request},
        file::{Fallocate, FileExt},
        gendisk::{ClosedDisk, GenDisk},
        kiocb::DataRequest,
        module::ModuleRef,
        mutex::{new_killable_mutex, KillableMutex},
        pagemap::{NoReclaimIo, ReclaimMasks},
        queue_limits::LimitsUpdate,
        relay::RelayedRequests,
        task,
    },
    loop_cmd::{self, Command},
    loop_info::{Flags, InfoError, Status, NAME_SIZE},
    loop_ioctl,
    loop_stats::Stats,
    loop_sysfs,
    params::Params,
    policy::{self, Load, Mode, Outcome, WritePolicy},
    workqueue, RustLoop,
};
use core::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use kernel::{
    fs::File,
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc, SpinLock},
};

/// File systems that were read and tested for tries in the submitter's task, and whether for direct
/// I/O too: that of btrfs sleeps on inode locks and reads metadata under `IOCB_NOWAIT`. All others
/// take the worker. f2fs is one of them: a read may wait for all direct writes to the file.
const REVIEWED_FILESYSTEMS: [(&[u8], bool); 3] =
    [(b"ext4", true), (b"xfs", true), (b"btrfs", false)];

/// What all devices share.
#[pin_data]
pub(crate) struct Shared {
    /// The module's parameters.
    pub(crate) params: Params,
    /// Which commands to try on a device that was told nothing else.
    pub(crate) mode: Mode,
    /// Held while a bound device changes to a file that is a loop device, so that chains of them
    /// cannot become rings: see [`check_chain`]. Taken before a device's `phase`.
    #[pin]
    chain: KillableMutex<()>,
    /// Of the files that devices are bound to.
    masks: Arc<ReclaimMasks>,
}

impl Shared {
    /// Makes the part that all devices share.
    pub(crate) fn new(params: Params, mode: Mode) -> Result<Arc<Self>> {
        let masks = Arc::pin_init(ReclaimMasks::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                params,
                mode,
                chain <- new_killable_mutex!((), c"Shared::chain"),
                masks,
            }),
            GFP_KERNEL,
        )
    }
}

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// No file.
    Unbound,
    /// A file.
    Bound,
    /// A file that is on its way out; no new openers.
    Rundown,
    /// The device itself is on its way out.
    Deleting,
}

/// What the data path needs of a binding. Immutable; replaced as a whole while the queue is frozen.
#[derive(Clone)]
pub(crate) struct Backing {
    file: ARef<File>,
    /// None if nothing is ever tried.
    tries: Option<Tries>,
    offset: u64,
    direct: bool,
    read_only: bool,
}

/// What may be tried on a file.
#[derive(Clone)]
struct Tries {
    /// For READs: the same file, opened so that reading leaves its access time alone. An inline
    /// READ would otherwise update that, a transaction of the file system below in the middle of
    /// the submitter's doings.
    noatime: ARef<File>,
    /// Through the page cache.
    buffered: bool,
    /// Past it.
    direct: bool,
}

impl Tries {
    /// If anything may: the file knows NOWAIT, and is a block device or lies on a file system that
    /// was reviewed.
    fn on(file: &File) -> Option<Self> {
        if !file.can_nowait() {
            return None;
        }
        if file.block_device().is_some() {
            // The access time is the node's: a transaction too, where the node lies on a disk. A
            // buffered read waits for the inode's lock, which is held over a whole discard.
            let in_memory = matches!(file.filesystem_name().to_bytes(), b"devtmpfs" | b"tmpfs");
            return in_memory.then(|| Self {
                noatime: file.into(),
                buffered: false,
                direct: true,
            });
        }
        let name = file.filesystem_name().to_bytes();
        let (_, direct) = REVIEWED_FILESYSTEMS
            .into_iter()
            .find(|(reviewed, _)| *reviewed == name)?;
        let noatime = if cfg!(without_noatime) {
            file.into()
        } else {
            file.reopen_noatime().ok()?
        };
        noatime.can_nowait().then_some(Self {
            noatime,
            buffered: true,
            // Else the first try would make a workqueue, and wait for that.
            direct: direct && (cfg!(without_dio_queue) || file.prepare_direct().is_ok()),
        })
    }
}

impl Backing {
    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The file to try on.
    pub(crate) fn try_file(&self, write: bool) -> &File {
        match &self.tries {
            Some(tries) if !write => &tries.noatime,
            _ => &self.file,
        }
    }

    /// Whether the file takes tries, as the device uses it.
    pub(crate) fn may_try(&self) -> bool {
        self.tries.as_ref().is_some_and(|tries| {
            if self.direct {
                tries.direct
            } else {
                tries.buffered
            }
        })
    }

    /// Whether READs can wait for a page without a worker.
    pub(crate) fn can_park_reads(&self) -> bool {
        !self.direct && self.file.can_park_reads()
    }

    /// Byte of the file at which the device begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Past the page cache of the file.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// WRITEs are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// A device bound to a file. Dropped, it lets the file go.
pub(crate) struct Binding {
    backing: Backing,
    sizelimit: u64,
    flags: Flags,
    name: [u8; NAME_SIZE],
    dio: DioConstraints,
    no_reclaim_io: NoReclaimIo,
    _module: ModuleRef<RustLoop>,
}

impl Binding {
    /// The file.
    pub(crate) fn file(&self) -> &File {
        self.backing.file()
    }

    /// Byte of the file at which the device begins.
    pub(crate) fn offset(&self) -> u64 {
        self.backing.offset
    }

    /// Most bytes of the device; 0 for no limit.
    pub(crate) fn sizelimit(&self) -> u64 {
        self.sizelimit
    }

    /// `LO_FLAGS_*`, the effective ones.
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }
}

/// What a user asks for in LOOP_CONFIGURE.
pub(crate) struct Configuration {
    /// Descriptor of the file.
    pub(crate) fd: i32,
    /// Block size in bytes, 0 for the default.
    pub(crate) block_size: u32,
    /// Offset, limit, flags and name.
    pub(crate) status: Status,
}

/// The file has no DISCARD, hence no WRITE_ZEROES either.
const NO_PUNCH_HOLE: u8 = 1;
/// The file has no WRITE_ZEROES without unmapping.
const NO_ZERO_RANGE: u8 = 2;

/// A loop device: the private data of its disk.
#[pin_data]
pub(crate) struct LoopDevice {
    number: u32,
    shared: Arc<Shared>,
    /// Serialises changes of the device. Protects `state`, which is written only with it held.
    #[pin]
    phase: KillableMutex<()>,
    /// A [`Phase`]; read without the lock where an outdated answer does no harm.
    state: AtomicU8,
    /// Some if bound. Written with `phase` held as well, so that holding either is enough to read.
    #[pin]
    binding: SpinLock<Option<Binding>>,
    stats: Stats,
    /// A [`Mode`], for as long as a file is bound.
    mode: AtomicU8,
    /// A [`WritePolicy`]; see there why lost updates do no harm.
    write_policy: AtomicU32,
    /// WRITEs that are queued for a worker or in its call into the file.
    blocking_writes: AtomicU32,
    /// What the file turned out not to have, [`NO_PUNCH_HOLE`] and [`NO_ZERO_RANGE`]; see
    /// [`Driver::disk_work`].
    missing: AtomicU8,
}

impl LoopDevice {
    /// An unbound device. `ENOMEM`.
    pub(crate) fn new(number: u32, shared: Arc<Shared>) -> Result<impl PinInit<Self>> {
        let stats = Stats::new()?;
        let mode = AtomicU8::new(shared.mode.index());
        Ok(pin_init!(Self {
            number,
            shared,
            mode,
            phase <- new_killable_mutex!((), c"LoopDevice::phase"),
            state: AtomicU8::new(Phase::Unbound as u8),
            binding <- new_spinlock!(None, "LoopDevice::binding"),
            stats,
            write_policy: AtomicU32::new(WritePolicy::default().bits()),
            blocking_writes: AtomicU32::new(0),
            missing: AtomicU8::new(0),
        }))
    }

    /// Counters.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Which commands are tried.
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_index(self.mode.load(Ordering::Relaxed))
    }

    /// Changes which commands are tried, until the file goes. Commands that are on their way stay
    /// on it. The write policy learns anew.
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.index(), Ordering::Relaxed);
        self.write_policy
            .store(WritePolicy::default().bits(), Ordering::Relaxed);
    }

    /// The state; outdated unless `phase` is held.
    pub(crate) fn phase(&self) -> Phase {
        let state = self.state.load(Ordering::Acquire);
        [Phase::Unbound, Phase::Bound, Phase::Rundown]
            .into_iter()
            .find(|phase| *phase as u8 == state)
            .unwrap_or(Phase::Deleting)
    }

    /// Changes the state; `phase` is held.
    fn set_phase(&self, phase: Phase) {
        // Release: who sees `Bound` sees the binding. Pairs with the load in `phase`.
        self.state.store(phase as u8, Ordering::Release);
    }

    /// Calls `f` with the binding, if there is one, under the spinlock: `f` must not sleep.
    pub(crate) fn with_binding<R>(&self, f: impl FnOnce(&Binding) -> R) -> Option<R> {
        Option::as_ref(&self.binding.lock()).map(f)
    }

    /// The same for a change, with `phase` held. What `f` takes out is dropped by the caller: it
    /// may be the last reference on a file.
    fn edit_binding<R>(&self, f: impl FnOnce(&mut Binding) -> R) -> Option<R> {
        Option::as_mut(&mut self.binding.lock()).map(f)
    }

    /// Prepares to remove the device. `EBUSY` if it is bound or open. Sleeps, killably.
    pub(crate) fn begin_removal(&self, disk: &GenDisk<Self>) -> Result {
        let _phase = self.phase.lock_killable()?;
        if self.phase() != Phase::Unbound || disk.openers() > 0 {
            return Err(EBUSY);
        }
        self.set_phase(Phase::Deleting);
        Ok(())
    }

    /// Whether the write policy lets a direct WRITE be tried.
    pub(crate) fn write_policy_allows(&self) -> bool {
        if self.mode() != Mode::Auto {
            return true;
        }
        let policy = WritePolicy::from_bits(self.write_policy.load(Ordering::Relaxed));
        let (allowed, next) = policy.decide();
        self.store_write_policy(policy, next);
        allowed
    }

    /// Whether the relay makes the tries of this batch.
    pub(crate) fn relays(&self, batch: &Batch<'_, Self>) -> bool {
        self.mode() == Mode::Auto
            && policy::relays(&Load {
                // The kernel with the checks that the relay has to pass too has one CPU. What a guard is
                // for is to be seen in the submitter's task, though.
                several_cpus: task::several_cpus_online()
                    || cfg!(all(CONFIG_PROVE_LOCKING, not(without_guard))),
                others: batch.others_under_way(),
                backlog: batch.relay_backlog(),
            })
    }

    /// Tells the write policy how a tried WRITE ended.
    pub(crate) fn record_write(&self, outcome: Outcome) {
        let policy = WritePolicy::from_bits(self.write_policy.load(Ordering::Relaxed));
        self.store_write_policy(policy, policy.record(outcome));
    }

    fn store_write_policy(&self, old: WritePolicy, new: WritePolicy) {
        if new != old {
            self.write_policy.store(new.bits(), Ordering::Relaxed);
        }
    }

    /// How reluctant the write policy is; see [`WritePolicy`].
    pub(crate) fn write_level(&self) -> u32 {
        WritePolicy::from_bits(self.write_policy.load(Ordering::Relaxed)).level()
    }

    /// WRITEs that are queued for a worker or in its call into the file now.
    pub(crate) fn blocking_writes(&self) -> u32 {
        self.blocking_writes.load(Ordering::Relaxed)
    }

    /// A WRITE goes to a worker.
    pub(crate) fn enter_blocking_write(&self) {
        self.blocking_writes.fetch_add(1, Ordering::Relaxed);
    }

    /// The worker's call into the file for a WRITE has returned.
    pub(crate) fn leave_blocking_write(&self) {
        self.blocking_writes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that the file has no `how`: in the limits of the moment, and soon in all of them. True
    /// if that is the first thing that the file turns out not to have.
    pub(crate) fn forget_fallocate(&self, rq: &Request<Self>, how: Fallocate) -> bool {
        // Without holes there are no zeroes either: who is refused a DISCARD tries these next.
        rq.disable_write_zeroes();
        let bit = match how {
            Fallocate::PunchHole => {
                rq.disable_discard();
                NO_PUNCH_HOLE
            }
            Fallocate::ZeroRange => NO_ZERO_RANGE,
        };
        let known = self.missing.fetch_or(bit, Ordering::Relaxed);
        if known & bit == 0 {
            rq.schedule_disk_work();
        }
        known == 0
    }

    /// LOOP_CONFIGURE and LOOP_SET_FD.
    pub(crate) fn configure(
        &self,
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        config: &Configuration,
    ) -> Result {
        let file = File::from_fd(config.fd)?;
        check_operations(&file)?;
        let module = ModuleRef::get();
        // With nothing held: opening a file can wait for a user's program (fanotify), which may
        // be about to open this device.
        let tries = Tries::on(&file);
        let _claim = bdev.claim(mode)?;
        let partscan = {
            let _phase = self.phase.lock_killable()?;
            if self.phase() != Phase::Unbound {
                return Err(EBUSY);
            }
            check_chain(&file, disk)?;
            self.bind(disk, (file, tries), mode, config, module)?
        };
        if partscan {
            self.rescan_partitions(disk);
        }
        Ok(())
    }

    /// The part of [`LoopDevice::configure`] with all locks held; everything that can fail comes
    /// before the first thing that shows. Returns whether to scan for partitions.
    fn bind(
        &self,
        disk: &GenDisk<Self>,
        (file, tries): (ARef<File>, Option<Tries>),
        mode: OpenMode,
        config: &Configuration,
        module: ModuleRef<RustLoop>,
    ) -> Result<bool> {
        let status = &config.status;
        let mut flags = Flags::for_configure(status.flags).map_err(info_error)?;
        check_status(status)?;
        let block_size = checked_block_size(config.block_size.into())?;

        if !file.is_writable() || !mode.is_write() || !file.has_write_iter() {
            flags = flags.with(Flags::READ_ONLY);
        }
        if file.is_direct() {
            flags = flags.with(Flags::DIRECT_IO);
        }
        let wanted = FileLimits::of(&file);
        let dio = wanted.dio;
        let block_size = block_size.map_or_else(
            || {
                let direct = flags.contains(Flags::DIRECT_IO);
                dio.default_block_size(direct, bindings::BLK_MAX_BLOCK_SIZE)
            },
            BlockSize::bytes,
        );
        if !dio.allows(block_size, status.offset, file.can_direct()) {
            flags = flags.without(Flags::DIRECT_IO);
        }
        let backing = Backing {
            tries,
            offset: status.offset,
            direct: flags.contains(Flags::DIRECT_IO),
            read_only: flags.contains(Flags::READ_ONLY),
            file: file.clone(),
        };
        let io = KBox::new(backing.clone(), GFP_KERNEL)?;
        let no_reclaim_io = self.shared.masks.forbid_io(&file)?;
        let mut limits = disk.update_limits();
        wanted.set(&mut limits, flags, block_size);
        // The device has no capacity yet: what a raw opener sends now fails whatever the limits.
        limits.commit()?;

        let quiet = disk.suppress_uevents();
        disk.force_media_change();
        disk.set_read_only(flags.contains(Flags::READ_ONLY));
        let sectors = settle_size(&file, backing.direct, backing.offset, status.sizelimit);
        self.stats.reset();
        self.missing.store(0, Ordering::Relaxed);
        self.set_mode(self.shared.mode);

        let partscan = flags.contains(Flags::PARTSCAN) || self.shared.params.part_shift > 0;
        if partscan {
            flags = flags.with(Flags::PARTSCAN);
        }
        *self.binding.lock() = Some(Binding {
            backing,
            sizelimit: status.sizelimit,
            flags,
            name: status.terminated_name(),
            dio,
            no_reclaim_io,
            _module: module,
        });
        // None is there: the device is unbound, and unbinding takes it away.
        let _ = disk.publish_io(io);
        if disk.add_attributes(&loop_sysfs::GROUP).is_err() {
            pr_warn!("loop{}: no sysfs attributes\n", self.number);
        }
        self.set_size(disk, sectors);
        self.set_phase(Phase::Bound);
        if partscan {
            disk.set_partition_scan(true);
        }
        drop(quiet);
        disk.notify_change();
        Ok(partscan)
    }

    /// LOOP_CHANGE_FD: another file of the same size under a read-only device.
    pub(crate) fn change_fd(&self, disk: &GenDisk<Self>, fd: i32) -> Result {
        let file = File::from_fd(fd)?;
        check_operations(&file)?;
        let result = self.exchange_file(disk, file);
        if result == Ok(true) {
            self.rescan_partitions(disk);
        }
        disk.notify_change();
        result.map(|_| ())
    }

    /// The part of [`LoopDevice::change_fd`] before the event that tells of it. Returns whether to
    /// scan for partitions.
    fn exchange_file(&self, disk: &GenDisk<Self>, file: ARef<File>) -> Result<bool> {
        settle_page_cache(&file, file.is_direct());
        let dio = dio_constraints(&file);
        let tries = Tries::on(&file);
        let is_loop = file
            .block_device()
            .is_some_and(|bdev| bdev.disk_of::<Self>().is_some());
        // Two devices that change to each other must not both find the way clear.
        let chain = if is_loop {
            Some(self.shared.chain.lock_killable()?)
        } else {
            None
        };
        let phase = self.phase.lock_killable()?;
        self.bound()?;
        let (old, sizelimit, mut flags) = self
            .with_binding(|b| (b.backing.clone(), b.sizelimit, b.flags))
            .ok_or(ENXIO)?;
        if !old.read_only {
            return Err(EINVAL);
        }
        check_chain(&file, disk)?;
        let size_of = |file: &File| {
            geometry::capacity_sectors(file.size().unwrap_or(0), old.offset, sizelimit)
        };
        if size_of(&file) != size_of(&old.file) {
            return Err(EINVAL);
        }

        if file.is_direct() {
            flags = flags.with(Flags::DIRECT_IO);
        }
        if !dio.allows(disk.logical_block_size(), old.offset, file.can_direct()) {
            flags = flags.without(Flags::DIRECT_IO);
        }
        let backing = Backing {
            tries,
            offset: old.offset,
            direct: flags.contains(Flags::DIRECT_IO),
            read_only: true,
            file: file.clone(),
        };
        let io = KBox::new(backing.clone(), GFP_KERNEL)?;
        let no_reclaim_io = self.shared.masks.forbid_io(&file)?;

        // User space shall not see it half done. No sooner: what others do to the device meanwhile
        // has events too, which would be lost.
        let quiet = disk.suppress_uevents();
        let mut limits = disk.update_limits();
        limits.set_dma_alignment_mask(dio.dma_alignment_mask(backing.direct));
        let frozen = disk.freeze();
        frozen.commit_limits(limits)?;
        let old_io = frozen.replace_io(Some(io));
        drop(frozen);

        let remains = self.edit_binding(|binding| {
            binding.flags = flags;
            binding.dio = dio;
            (
                core::mem::replace(&mut binding.no_reclaim_io, no_reclaim_io),
                core::mem::replace(&mut binding.backing, backing),
            )
        });
        drop((phase, chain));
        // A file system on the device is told with its own locks taken, so with none held here;
        // what was read of the old file until now is forgotten with this.
        disk.force_media_change();
        drop(quiet);
        // Outside all locks: these may be the last references, on a file of any kind.
        drop((old, old_io, remains));
        Ok(flags.contains(Flags::PARTSCAN))
    }

    /// LOOP_CLR_FD: lets the file go when the last opener does, which is at once from the user's
    /// point of view if there is no other.
    pub(crate) fn clear_fd(&self, disk: &GenDisk<Self>) -> Result {
        let _phase = self.phase.lock_killable()?;
        self.bound()?;
        self.edit_binding(|b| b.flags = b.flags.with(Flags::AUTOCLEAR));
        if disk.openers() == 1 {
            self.set_phase(Phase::Rundown);
        }
        Ok(())
    }

    /// LOOP_SET_STATUS and LOOP_SET_STATUS64.
    pub(crate) fn set_status(&self, disk: &GenDisk<Self>, status: &Status) -> Result {
        let partscan = {
            let _phase = self.phase.lock_killable()?;
            self.bound()?;
            check_status(status)?;
            self.change_status(disk, status)?
        };
        if partscan {
            self.rescan_partitions(disk);
        }
        Ok(())
    }

    fn change_status(&self, disk: &GenDisk<Self>, status: &Status) -> Result<bool> {
        let (mut backing, sizelimit, old_flags, dio) = self
            .with_binding(|b| (b.backing.clone(), b.sizelimit, b.flags, b.dio))
            .ok_or(ENXIO)?;
        let moved = backing.offset != status.offset;
        let resized = moved || sizelimit != status.sizelimit;
        let mut flags = old_flags.after_set_status(status.flags);
        let partscan = !old_flags.contains(Flags::PARTSCAN) && flags.contains(Flags::PARTSCAN);

        backing.offset = status.offset;
        let block_size = disk.logical_block_size();
        if !dio.allows(block_size, backing.offset, backing.file.can_direct()) {
            flags = flags.without(Flags::DIRECT_IO);
        }
        backing.direct = flags.contains(Flags::DIRECT_IO);
        let old_io = if resized {
            let io = KBox::new(backing.clone(), GFP_KERNEL)?;
            disk.sync_and_invalidate();
            let old = disk.freeze().replace_io(Some(io));
            // What somebody (udev) has read until the queue was frozen is of the old place.
            disk.invalidate_clean();
            old
        } else {
            None
        };
        let sectors = resized.then(|| {
            let bytes = backing.file.size().unwrap_or(0);
            geometry::capacity_sectors(bytes, status.offset, status.sizelimit)
        });
        let old_backing = self.edit_binding(|binding| {
            binding.sizelimit = status.sizelimit;
            binding.flags = flags;
            binding.name = status.terminated_name();
            core::mem::replace(&mut binding.backing, backing)
        });
        drop((old_io, old_backing));
        if partscan {
            disk.set_partition_scan(true);
        }
        if let Some(sectors) = sectors {
            self.set_size(disk, sectors);
        }
        Ok(partscan)
    }

    /// LOOP_GET_STATUS and LOOP_GET_STATUS64.
    pub(crate) fn status(&self) -> Result<Status> {
        let (file, mut status) = {
            let _phase = self.phase.lock_killable()?;
            self.bound()?;
            self.with_binding(|b| {
                let status = Status {
                    offset: b.backing.offset,
                    sizelimit: b.sizelimit,
                    flags: b.flags.bits(),
                    encrypt_type: bindings::LO_CRYPT_NONE,
                    encrypt_key_size: 0,
                    name: b.name,
                    number: self.number,
                    device: 0,
                    inode: 0,
                    rdevice: 0,
                };
                (b.backing.file.clone(), status)
            })
            .ok_or(ENXIO)?
        };
        // Into the file system, with no lock.
        let stat = file.stat()?;
        status.device = stat.dev;
        status.inode = stat.ino;
        status.rdevice = stat.rdev;
        Ok(status)
    }

    /// LOOP_SET_CAPACITY: takes a new size of the file over.
    pub(crate) fn set_capacity(&self, disk: &GenDisk<Self>) -> Result {
        let _phase = self.phase.lock_killable()?;
        self.bound()?;
        let (file, offset, sizelimit) = self
            .with_binding(|b| (b.backing.file.clone(), b.backing.offset, b.sizelimit))
            .ok_or(ENXIO)?;
        let bytes = file.size().unwrap_or(0);
        self.set_size(disk, geometry::capacity_sectors(bytes, offset, sizelimit));
        Ok(())
    }

    /// LOOP_SET_DIRECT_IO.
    pub(crate) fn set_direct_io(&self, disk: &GenDisk<Self>, on: bool) -> Result {
        let _phase = self.phase.lock_killable()?;
        self.bound()?;
        let (mut backing, dio) = self
            .with_binding(|b| (b.backing.clone(), b.dio))
            .ok_or(ENXIO)?;
        if backing.direct == on {
            return Ok(());
        }
        if on {
            let block_size = disk.logical_block_size();
            if !dio.allows(block_size, backing.offset, backing.file.can_direct()) {
                return Err(EINVAL);
            }
            settle_page_cache(&backing.file, true);
        }
        backing.direct = on;
        let io = KBox::new(backing.clone(), GFP_KERNEL)?;
        let mut limits = disk.update_limits();
        limits.set_dma_alignment_mask(dio.dma_alignment_mask(on));
        let frozen = disk.freeze();
        frozen.commit_limits(limits)?;
        let old_io = frozen.replace_io(Some(io));
        drop(frozen);
        let old_backing = self.edit_binding(|binding| {
            binding.flags = if on {
                binding.flags.with(Flags::DIRECT_IO)
            } else {
                binding.flags.without(Flags::DIRECT_IO)
            };
            core::mem::replace(&mut binding.backing, backing)
        });
        drop((old_io, old_backing));
        Ok(())
    }

    /// LOOP_SET_BLOCK_SIZE.
    pub(crate) fn set_block_size(
        &self,
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        bytes: usize,
    ) -> Result {
        let _claim = bdev.claim(mode)?;
        let _phase = self.phase.lock_killable()?;
        self.bound()?;
        let asked = checked_block_size(u64::try_from(bytes)?)?.map(BlockSize::bytes);
        // The default takes the file's limits over even if it is the same size: LOOP_CHANGE_FD may
        // have brought in another file.
        if asked == Some(disk.logical_block_size()) {
            return Ok(());
        }
        let (mut backing, mut flags, dio) = self
            .with_binding(|b| (b.backing.clone(), b.flags, b.dio))
            .ok_or(ENXIO)?;
        let block_size = asked.unwrap_or_else(|| {
            dio.default_block_size(backing.direct, bindings::BLK_MAX_BLOCK_SIZE)
        });
        if !dio.allows(block_size, backing.offset, backing.file.can_direct()) {
            flags = flags.without(Flags::DIRECT_IO);
        }
        backing.direct = flags.contains(Flags::DIRECT_IO);
        let io = KBox::new(backing.clone(), GFP_KERNEL)?;

        let wanted = FileLimits::of(&backing.file);

        disk.sync_and_invalidate();
        let mut limits = disk.update_limits();
        wanted.set(&mut limits, flags, block_size);
        let frozen = disk.freeze();
        frozen.commit_limits(limits)?;
        let old_io = frozen.replace_io(Some(io));
        // If the file cannot do what is advertised again, it says so again.
        self.missing.store(0, Ordering::Relaxed);
        drop(frozen);
        let old_backing = self.edit_binding(|binding| {
            binding.flags = flags;
            core::mem::replace(&mut binding.backing, backing)
        });
        drop((old_io, old_backing));
        Ok(())
    }

    /// Lets the file go, under the disk's `open_mutex`, after the last close.
    fn unbind(&self, disk: &ClosedDisk<'_, Self>) {
        // Commands that are still under way end first; later ones find no file, and fail.
        let io = disk.withdraw_io();
        let binding = self.binding.lock().take();

        let mut limits = disk.update_limits();
        limits.set_block_size(SECTOR_BYTES);
        if limits.commit().is_err() {
            pr_warn!("loop{}: cannot reset the block size\n", self.number);
        }
        disk.invalidate();
        disk.remove_attributes(&loop_sysfs::GROUP);
        disk.notify_change();
        disk.force_media_change();
        // Those that were added by hand go as well.
        if let Err(error) = disk.drop_partitions() {
            pr_warn!(
                "loop{}: cannot remove partitions ({})\n",
                self.number,
                error.to_errno()
            );
        }
        if self.shared.params.part_shift == 0 {
            disk.set_partition_scan(false);
        }
        {
            let _phase = self.phase.lock();
            self.set_phase(Phase::Unbound);
        }
        // With no lock but `open_mutex`. The last close of the device returns to its task only
        // when the file is closed: both are work of the same task.
        drop((io, binding));
    }

    /// `self` if it is bound; `phase` is held.
    fn bound(&self) -> Result<&Self> {
        (self.phase() == Phase::Bound).then_some(self).ok_or(ENXIO)
    }

    /// Sets the size in sectors and tells user space, by RESIZE or by CHANGE.
    fn set_size(&self, disk: &GenDisk<Self>, sectors: u64) {
        if !disk.set_capacity_and_notify(sectors) {
            disk.notify_change();
        }
    }

    fn rescan_partitions(&self, disk: &GenDisk<Self>) {
        if let Err(error) = disk.rescan_partitions() {
            pr_warn!(
                "loop{}: partition scan failed ({})\n",
                self.number,
                error.to_errno()
            );
        }
    }
}

/// Size of a sector in the type of limits.
const SECTOR_BYTES: u32 = 1 << geometry::SECTOR_SHIFT;

/// The errno of a refused `struct loop_info`; with a line in the log for what once worked.
pub(crate) fn info_error(error: InfoError) -> Error {
    match error {
        InfoError::Invalid => EINVAL,
        InfoError::Overflow => EOVERFLOW,
        InfoError::RemovedXor => {
            pr_warn!("the xor transformation is gone; use dm-crypt\n");
            EINVAL
        }
        InfoError::RemovedCryptoapi => {
            pr_warn!("cryptoloop is gone; use dm-crypt\n");
            EINVAL
        }
    }
}

fn check_status(status: &Status) -> Result {
    status.validate(bindings::LO_KEY_SIZE).map_err(info_error)
}

fn checked_block_size(bytes: u64) -> Result<Option<BlockSize>> {
    BlockSize::new(bytes, bindings::BLK_MAX_BLOCK_SIZE).map_err(|_| EINVAL)
}

/// `EINVAL` for a file that cannot be read, or not be written though it is open for it.
fn check_operations(file: &File) -> Result {
    if !file.has_read_iter() || (file.is_writable() && !file.has_write_iter()) {
        return Err(EINVAL);
    }
    Ok(())
}

/// `EBADF` if the file leads to `disk` itself, `EINVAL` if it leads through a loop device that is
/// not bound, or is neither a regular file nor a block device.
///
/// A ring needs a last step that closes it, and every step wants all devices it leads through to be
/// bound. So a device on its way from unbound to bound is never part of someone else's chain, and
/// the step that closes the ring is one of LOOP_CHANGE_FD, which sees the others, or meets another
/// of its kind at [`Shared::chain`]. The device that a chain leads through stays: the file is an
/// opener of it.
fn check_chain(file: &File, disk: &GenDisk<LoopDevice>) -> Result {
    let mut next: Option<ARef<File>> = None;
    loop {
        let current = next.as_deref().unwrap_or(file);
        let Some(bdev) = current.block_device() else {
            break;
        };
        let Some(below) = bdev.disk_of::<LoopDevice>() else {
            break;
        };
        if core::ptr::eq(below, disk) {
            return Err(EBADF);
        }
        let device = below.driver();
        if device.phase() != Phase::Bound {
            return Err(EINVAL);
        }
        let file = device
            .with_binding(|b| b.backing.file.clone())
            .ok_or(EINVAL)?;
        next = Some(file);
    }
    if !file.is_regular() && file.block_device().is_none() {
        return Err(EINVAL);
    }
    Ok(())
}

/// What direct I/O on the file asks for: as the file system says, else as the device below does.
fn dio_constraints(file: &File) -> DioConstraints {
    let page_size = u32::try_from(PAGE_SIZE).unwrap_or(u32::MAX);
    file.dio_align()
        .and_then(|align| DioConstraints::from_statx(align.offset, align.memory, page_size))
        .or_else(|| {
            let bdev = file.filesystem_device()?;
            Some(DioConstraints::from_queue(
                bdev.logical_block_size(),
                bdev.dma_alignment_mask(),
            ))
        })
        .unwrap_or_default()
}

/// Writes the file back, so that single commands need not. With direct I/O its page cache is
/// dropped as well: overwrites then complete without a detour.
fn settle_page_cache(file: &File, direct: bool) {
    // Neither is needed for correct data, and an error is still there for the next FLUSH.
    let _ = file.write_back();
    if direct {
        let _ = file.invalidate_page_cache();
    }
}

/// [`settle_page_cache`], and the capacity in sectors afterwards.
fn settle_size(file: &File, direct: bool, offset: u64, sizelimit: u64) -> u64 {
    settle_page_cache(file, direct);
    geometry::capacity_sectors(file.size().unwrap_or(0), offset, sizelimit)
}

/// Limits that follow from a file. Asked for with no lock held, as the file system answers.
struct FileLimits {
    dio: DioConstraints,
    write_cache: bool,
    rotational: bool,
    /// Most sectors of a DISCARD or WRITE_ZEROES; 0 for none.
    discard_sectors: u32,
    /// Granularity of a DISCARD, in bytes.
    discard_granularity: u32,
}

impl FileLimits {
    fn of(file: &File) -> Self {
        let host = file.block_device();
        let (discard_sectors, discard_granularity) = if let Some(bdev) = &host {
            // Discards become WRITE_ZEROES there, so that the range reads as zeroes as in a file.
            (bdev.write_zeroes_sectors(), bdev.discard_granularity())
        } else {
            match file.statfs_block_size() {
                Some(bytes) if file.has_fallocate() => (u32::MAX >> geometry::SECTOR_SHIFT, bytes),
                _ => (0, 0),
            }
        };
        Self {
            dio: dio_constraints(file),
            write_cache: file.has_fsync(),
            rotational: host
                .or_else(|| file.filesystem_device())
                .is_some_and(|bdev| bdev.is_rotational()),
            discard_sectors,
            discard_granularity,
        }
    }

    /// Sets them all, for blocks of `block_size` bytes.
    fn set(&self, limits: &mut LimitsUpdate<'_, LoopDevice>, flags: Flags, block_size: u32) {
        let direct = flags.contains(Flags::DIRECT_IO);
        limits
            .set_block_size(block_size)
            .set_dma_alignment_mask(self.dio.dma_alignment_mask(direct))
            .set_write_cache(self.write_cache && !flags.contains(Flags::READ_ONLY))
            .set_rotational(self.rotational)
            .set_discard(self.discard_sectors, self.discard_granularity)
            .set_write_zeroes(self.discard_sectors);
    }
}

#[vtable]
impl Driver for LoopDevice {
    type Module = RustLoop;
    type Io = Backing;
    type Command = Command;

    fn new_command() -> Command {
        Command::new()
    }

    fn queue(&self, batch: Batch<'_, Self>) {
        loop_cmd::queue(self, batch);
    }

    fn relay(&self, requests: RelayedRequests<'_, Self>) {
        loop_cmd::relay(self, requests);
    }

    fn run(&self, rq: Request<Self>) {
        workqueue::run(self, rq);
    }

    fn io_done(rq: DataRequest<Self>, result: Result<u32>) {
        loop_cmd::io_done(rq, result);
    }

    fn page_read(rq: DataRequest<Self>) {
        loop_cmd::page_read(rq);
    }

    fn open(disk: &GenDisk<Self>) -> Result {
        let device = disk.driver();
        let _phase = device.phase.lock_killable()?;
        match device.phase() {
            Phase::Unbound | Phase::Bound => Ok(()),
            Phase::Rundown | Phase::Deleting => Err(ENXIO),
        }
    }

    fn last_close(disk: &ClosedDisk<'_, Self>) {
        let device = disk.driver();
        let unbind = {
            let _phase = device.phase.lock();
            let autoclear = device.with_binding(|b| b.flags.contains(Flags::AUTOCLEAR));
            if device.phase() == Phase::Bound && autoclear == Some(true) {
                device.set_phase(Phase::Rundown);
            }
            device.phase() == Phase::Rundown
        };
        if unbind {
            device.unbind(disk);
        }
    }

    fn ioctl(
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        cmd: u32,
        arg: usize,
    ) -> Result<i32> {
        loop_ioctl::native(disk, bdev, mode, cmd, arg)
    }

    #[cfg(CONFIG_COMPAT)]
    fn compat_ioctl(
        disk: &GenDisk<Self>,
        bdev: BlockDevice<'_>,
        mode: OpenMode,
        cmd: u32,
        arg: usize,
    ) -> Result<i32> {
        loop_ioctl::compat(disk, bdev, mode, cmd, arg)
    }

    /// Takes back limits that the file turned out not to keep, with the queue frozen.
    fn disk_work(disk: &GenDisk<Self>) {
        let device = disk.driver();
        let _phase = device.phase.lock();
        if device.phase() != Phase::Bound {
            return;
        }
        let missing = device.missing.load(Ordering::Relaxed);
        let mut limits = disk.update_limits();
        if missing & NO_PUNCH_HOLE != 0 {
            limits.set_discard(0, 0);
        }
        if missing != 0 {
            limits.set_write_zeroes(0);
        }
        if disk.freeze().commit_limits(limits).is_err() {
            pr_warn!("loop{}: cannot change the limits\n", device.number);
        }
    }
}
