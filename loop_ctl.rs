// SPDX-License-Identifier: GPL-2.0

//! `/dev/loop-control`: which devices there are.

use crate::{
    kapi::{
        bdev::{Probe, ProbeSlot},
        bindings,
        gendisk::{DiskConfig, OwnedDisk},
        miscdevice::ControlNode,
        mutex::{new_killable_mutex, KillableMutex},
    },
    loop_device::{LoopDevice, Phase, Shared},
    params::Params,
    policy::Mode,
    workqueue, RustLoop,
};
use kernel::{
    pr_warn_once,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc,
};

/// Most sectors of 512 bytes in one command; the block layer's historic cap, as in-tree.
const MAX_SECTORS: u32 = 2560;

/// What stands at an index. A device is made and removed with no lock held; its index is taken
/// meanwhile.
enum Slot {
    /// A device is being made or removed.
    Taken,
    /// A device.
    Device(OwnedDisk<LoopDevice>),
}

/// All devices. They are removed when this is dropped.
#[pin_data]
pub(crate) struct Control {
    shared: Arc<Shared>,
    /// By index. Held for look-ups and changes of the table only.
    #[pin]
    devices: KillableMutex<RBTree<u32, Slot>>,
}

impl Control {
    /// No devices yet. `ENOMEM`.
    pub(crate) fn new(params: Params, mode: Mode) -> Result<Arc<Self>> {
        let shared = Shared::new(params, mode)?;
        Arc::pin_init(
            pin_init!(Self {
                shared,
                devices <- new_killable_mutex!(RBTree::new(), c"Control::devices"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the devices that the parameters ask for. One that fails leaves a gap.
    pub(crate) fn precreate(&self) {
        for index in 0..self.shared.params.max_loop {
            if let Err(error) = self.add(Some(index)) {
                pr_warn!("cannot make loop{} ({})\n", index, error.to_errno());
            }
        }
    }

    /// Makes the device `index`, or the first free one. `EEXIST` if there is one, `EINVAL` if the
    /// block major has no minors for it.
    fn add(&self, index: Option<u32>) -> Result<u32> {
        let index = self.take_index(index)?;
        match self.make(index) {
            Ok(disk) => {
                if let Some(slot) = self.devices.lock().get_mut(&index) {
                    *slot = Slot::Device(disk);
                }
                Ok(index)
            }
            Err(error) => {
                self.devices.lock().remove(&index);
                Err(error)
            }
        }
    }

    fn take_index(&self, index: Option<u32>) -> Result<u32> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut devices = self.devices.lock_killable()?;
        let index = match index {
            Some(index) if devices.get(&index).is_some() => return Err(EEXIST),
            Some(index) => index,
            None => first_gap(&devices).ok_or(ENOSPC)?,
        };
        self.shared.params.first_minor(index).ok_or(EINVAL)?;
        devices.insert(reservation.into_node(index, Slot::Taken));
        Ok(index)
    }

    fn make(&self, index: u32) -> Result<OwnedDisk<LoopDevice>> {
        let params = &self.shared.params;
        OwnedDisk::add(
            DiskConfig {
                major: bindings::LOOP_MAJOR,
                first_minor: params.first_minor(index).ok_or(EINVAL)?,
                minors: params.max_part + 1,
                name: fmt!("loop{index}"),
                max_sectors: MAX_SECTORS,
                nr_hw_queues: params.nr_hw_queues,
                queue_depth: params.hw_queue_depth,
                partition_scan: params.part_shift > 0,
                relay_queue: workqueue::new_relay_queue(index)?,
                queue: workqueue::new_queue(index)?,
                swap_queue: workqueue::new_swap_queue(index)?,
            },
            LoopDevice::new(index, self.shared.clone())?,
        )
    }

    /// LOOP_CTL_REMOVE. `EINVAL` for a negative index, `ENODEV` if there is no such device, `EBUSY`
    /// if it is open or bound.
    fn remove(&self, index: i32) -> Result {
        let index = u32::try_from(index).map_err(|_| {
            pr_warn_once!("removing an unspecified device is not supported\n");
            EINVAL
        })?;
        let disk = {
            let mut devices = self.devices.lock_killable()?;
            let slot = devices.get_mut(&index).ok_or(ENODEV)?;
            match core::mem::replace(slot, Slot::Taken) {
                Slot::Taken => return Err(ENODEV),
                Slot::Device(disk) => disk,
            }
        };
        if let Err(error) = disk.driver().begin_removal(&disk) {
            if let Some(slot) = self.devices.lock().get_mut(&index) {
                *slot = Slot::Device(disk);
            }
            return Err(error);
        }
        drop(disk);
        self.devices.lock().remove(&index);
        Ok(())
    }

    /// LOOP_CTL_GET_FREE: a device that is not bound, made if there is none. Someone else may be
    /// faster in binding it.
    fn get_free(&self) -> Result<u32> {
        {
            let devices = self.devices.lock_killable()?;
            for (index, slot) in devices.iter() {
                if matches!(slot, Slot::Device(disk) if disk.driver().phase() == Phase::Unbound) {
                    return Ok(*index);
                }
            }
        }
        self.add(None)
    }
}

/// The lowest index that is not taken.
fn first_gap(devices: &RBTree<u32, Slot>) -> Option<u32> {
    let mut next = 0u32;
    for index in devices.keys() {
        if *index != next {
            break;
        }
        next = next.checked_add(1)?;
    }
    Some(next)
}

/// An index, which is an `int`, from the argument of an ioctl, which is a `long`. A negative one
/// comes sign-extended, or zero-extended from a 32-bit process and from C's variable arguments.
/// `None` if there are more bits: no index is made up from a part of them.
fn index_argument(arg: usize) -> Option<i32> {
    let low = arg as u32 as i32;
    (u32::try_from(arg).is_ok() || i32::try_from(arg as isize).is_ok()).then_some(low)
}

impl ControlNode for Control {
    type Module = RustLoop;

    fn ioctl(&self, cmd: u32, arg: usize) -> Result<i32> {
        let index = index_argument(arg).ok_or(EINVAL);
        let made = |index: u32| Ok(i32::try_from(index)?);
        match cmd {
            bindings::LOOP_CTL_ADD => match index? {
                ..0 => made(self.add(None)?),
                index => made(self.add(Some(u32::try_from(index)?))?),
            },
            bindings::LOOP_CTL_REMOVE => self.remove(index?).map(|()| 0),
            bindings::LOOP_CTL_GET_FREE => made(self.get_free()?),
            _ => Err(ENOSYS),
        }
    }
}

/// Where the block layer's probe finds the devices.
static PROBE_SLOT: ProbeSlot<Control> = ProbeSlot::new();

impl Probe for Control {
    fn slot() -> &'static ProbeSlot<Self> {
        &PROBE_SLOT
    }

    fn probe(&self, minor: u32) {
        let params = &self.shared.params;
        let index = params.index_of_minor(minor);
        if params.on_demand_allowed(index) {
            // Whoever opens the node finds out whether there is a device now.
            let _ = self.add(Some(index));
        }
    }
}
