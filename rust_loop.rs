// SPDX-License-Identifier: GPL-2.0

//! A loop block device driver: `/dev/loopN` backed by a file.
//!
//! It takes the place of the in-tree `loop` module. A command is tried in the task that submits it,
//! with `IOCB_NOWAIT`, and goes to a work item of its own if it would have to wait. See
//! `Documentation/internals.rst` for the way of a request, the lock order and the guards.
//!
//! Load order: parameters, control node, block major, devices. Unload by the order of the fields of
//! [`RustLoop`]; the module cannot go while a device is open or bound.

use kernel::{fmt, prelude::*, sync::Arc};

mod geometry;
mod histogram;
mod kapi;
mod loop_cmd;
mod loop_ctl;
mod loop_device;
mod loop_info;
mod loop_ioctl;
mod loop_stats;
mod loop_sysfs;
mod params;
mod policy;
mod workqueue;

use kapi::{bdev::Major, miscdevice::ControlDevice, module_param::module_params};
use loop_ctl::Control;
use params::{Params, RawParams};
use policy::Mode;

module! {
    type: RustLoop,
    name: "rust_loop",
    authors: ["The rust_loop authors"],
    description: "Loop block device driver in Rust",
    license: "GPL v2",
    alias: ["block-major-7-*", "char-major-10-237", "devname:loop-control"],
}

module_params! {
    module RustLoop;

    static NR_HW_QUEUES: Param<i32> = 0;
    "nr_hw_queues", "int", "Hardware queues of each device; 0 for a default by the number of CPUs";

    static HW_QUEUE_DEPTH: Param<i32> = 128;
    "hw_queue_depth", "int", "Requests of each hardware queue";

    static MAX_LOOP: Param<i32> = 8;
    "max_loop", "int", "Devices to make on load; if given, also the limit of creation on demand";

    static MAX_PART: Param<i32> = 0;
    "max_part", "int", "Partitions of each device; 0 for extended minors";

    static NOWAIT: Param<Mode> = Mode::Auto as i32;
    "nowait", "charp", "Which commands to try without waiting first: auto, always, reads, never";
}

impl kapi::module_param::ParamValue for Mode {
    fn parse(text: &CStr) -> Option<Self> {
        Self::parse(text.to_bytes())
    }

    fn to_word(self) -> i32 {
        self.index().into()
    }

    fn from_word(word: i32) -> Self {
        u8::try_from(word).map_or(Self::Never, Self::from_index)
    }

    fn show(self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The loaded module. Fields are dropped in this order.
#[pin_data]
struct RustLoop {
    /// `/dev/loop-control`.
    #[pin]
    node: ControlDevice<Control>,
    /// Makes devices when their node is opened.
    major: Major<Control>,
    /// The devices themselves; nothing makes new ones by now.
    control: Arc<Control>,
}

impl kernel::InPlaceModule for RustLoop {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            if cfg!(without_guard) {
                pr_warn!("built without one of its guards: for tests only, not for data\n");
            }
            let params = validated_params()?;
            let control = Control::new(params, NOWAIT.get())?;
            Ok(try_pin_init!(Self {
                node <- ControlDevice::register(
                    kapi::bindings::LOOP_CTRL_MINOR,
                    c"loop-control",
                    control.clone(),
                    |_| pr_err!(
                        "cannot take /dev/loop-control: unload the in-tree driver first (rmmod loop)\n"
                    ),
                ),
                major: Major::register(kapi::bindings::LOOP_MAJOR, c"loop", control.clone())?,
                _: { control.precreate() },
                control,
            }))
        })
    }
}

/// The parameters as the user gave them, checked; one line in the log for what is wrong.
fn validated_params() -> Result<Params> {
    let raw = RawParams {
        nr_hw_queues: NR_HW_QUEUES.get(),
        hw_queue_depth: HW_QUEUE_DEPTH.get(),
        max_loop: MAX_LOOP.get(),
        max_loop_given: MAX_LOOP.is_given(),
        max_part: MAX_PART.get(),
    };
    let params = Params::validate(raw, kernel::cpu::nr_cpu_ids()).map_err(|error| {
        pr_err!("{}\n", core::format_args!("{error}"));
        EINVAL
    })?;
    // Tools compute minors from it.
    MAX_PART.set(i32::try_from(params.max_part)?);
    Ok(params)
}
