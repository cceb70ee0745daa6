// SPDX-License-Identifier: GPL-2.0

//! The fixed steps: states times probes, and what only makes sense in an order of its own.

/// How to get there from two unbound devices. The probes use the opening P.
const STATES: &[(&str, &[&str])] = &[
    ("unbound", &["open P X rw"]),
    ("unbound-r", &["open P X r"]),
    ("bound", &["open P X rw", "conf P file name=first"]),
    (
        "bound-r",
        &["open A X rw", "conf A file name=first", "open P X r"],
    ),
    ("bound-w", &["open A X rw", "conf A file", "open P X w"]),
    ("opened-r", &["open P X r", "conf P file"]),
    ("file-r", &["open P X rw", "conf P file:r"]),
    ("flag-r", &["open P X rw", "conf P part flags=1"]),
    ("autoclear", &["open P X rw", "conf P file flags=4"]),
    (
        "cleared",
        &["open A X rw", "open P X rw", "conf A file", "clr A"],
    ),
    ("rundown", &["open P X rw", "conf P file", "clr P"]),
    (
        "detached",
        &[
            "open A X rw",
            "conf A part flags=8",
            "clr A",
            "close A",
            "open P X rw",
        ],
    ),
    (
        "others",
        &[
            "other open A X rw",
            "other open B X r",
            "other conf A part flags=8",
            "open P X rw",
        ],
    ),
    (
        "claimed",
        &[
            "open A X rw",
            "conf A file",
            "open B X rw,excl",
            "open P X rw",
        ],
    ),
    ("claimer", &["open P X rw,excl", "conf P file"]),
    ("claimed-unbound", &["open A X rw,excl", "open P X rw"]),
    ("direct", &["open P X rw", "conf P file flags=16"]),
    ("direct-4k", &["open P X rw", "conf P b4k flags=16"]),
    ("direct-file-4k", &["open P X rw", "conf P f4k flags=16"]),
    ("block", &["open P X rw", "conf P bdev"]),
    ("memory", &["open P X rw", "conf P tmpfs offset=512"]),
    (
        "odd",
        &["open P X rw", "conf P odd offset=1000 limit=50001"],
    ),
    ("partitions", &["open P X rw", "conf P part flags=8"]),
    (
        "chain",
        &[
            "open A X rw",
            "conf A part flags=8",
            "open P Y rw",
            "conf P X",
        ],
    ),
    (
        "below",
        &["open P X rw", "conf P file", "open A Y rw", "conf A X"],
    ),
    (
        "grown",
        &["open P X rw", "conf P file", "truncate file 524288"],
    ),
    (
        "shrunk",
        &["open P X rw", "conf P file", "truncate file 4608"],
    ),
];

/// What is done in each of them.
const PROBES: &[&str] = &[
    "conf P tmpfs name=second",
    "change P part2",
    "clr P",
    "status64 P flags=0 name=other",
    "status64 P flags=12",
    "status64 P offset=513 limit=4097",
    "status P offset=1024 flags=4 name=old",
    "get64 P",
    "get P",
    "capacity P",
    "dio P 1",
    "bs P 4096",
    "open Q X rw,excl",
    "ctl remove 20",
    "ctl free 0",
    "write P 8192 4096 5",
    "block P rrpart",
];

/// What is done in some of them.
const MORE_PROBES: &[&str] = &[
    "setfd P tmpfs",
    "setfd P none",
    "conf P part flags=12 offset=512 limit=100000",
    "conf P file bs=4096 flags=16",
    "change P odd",
    "change P closed",
    "status64 P flags=0xffffffff",
    "status64 P offset=4096",
    "status64 P limit=4096 flags=16",
    "status64 P offset=0x7fffffffffffffff",
    "status64 P offset=0x8000000000000000",
    "status64 P limit=0x8000000000000000",
    "status64 P crypt=1",
    "status64 P crypt=18 crypt_name=aes",
    "status64 P crypt=7",
    "status64 P keysize=33",
    "status P offset=-1",
    "status P crypt=2 keysize=8",
    "dio P 0",
    "bs P 0",
    "bs P 512",
    "bs P 65536",
    "bs P 131072",
    "bs P 1000",
    "bs P 256",
    "open Q X rw",
    "read P 0 4096",
    "read P 261632 4096",
    "fsync P",
    "block P add 7 131072 4096",
    "block P add 1 8192 8192",
    "block P discard 0 65536",
    "block P zeroout 4096 8192",
    "block P roset 1",
    "block P roset 0",
];

const MORE_IN: &[&str] = &[
    "unbound",
    "bound",
    "bound-r",
    "rundown",
    "flag-r",
    "direct",
    "direct-4k",
];

/// What needs a right, or ends at a bad address before it gets anywhere.
const REFUSED: &[&str] = &[
    "nocap setfd P tmpfs",
    "nocap conf P tmpfs",
    "nocap change P part2",
    "nocap clr P",
    "nocap status64 P offset=512",
    "nocap status P offset=512",
    "nocap get64 P",
    "nocap get P",
    "nocap capacity P",
    "nocap dio P 1",
    "nocap bs P 4096",
    "nocap ioctl P 0x4c0b 0",
    "nocap ioctl P 0x4c04 null",
    "nocap ioctl P 0x4c02 null",
    "nocap block P roset 1",
    "nocap block P rrpart",
    "nocap block P add 1 4096 4096",
    "nocap read P 0 512",
    "nocap write P 0 512 9",
];

/// States in which those are tried.
const REFUSED_IN: &[&str] = &["unbound", "unbound-r", "bound", "bound-r", "opened-r"];

/// Ioctls that take an address, all of the range, and some that are no one's.
const COMMANDS: &[&str] = &[
    "0x4c00",
    "0x4c02",
    "0x4c03",
    "0x4c04",
    "0x4c05",
    "0x4c06",
    "0x4c0a",
    "0x4c0b",
    "0x4c0f",
    "0x4c80",
    "0x4c81",
    "0x4c82",
    "0x4cff",
    "0x0",
    "0x5401",
    "0x1234abcd",
    "0x2285",
    "0x5326",
];

const ADDRESSES: &[&str] = &["null", "low", "high", "cut", "constant", "-1", "0x7fffffff"];

const ADDRESSED_IN: &[&str] = &["unbound", "bound", "flag-r"];

/// Of files, what binding each gives.
const BACKINGS: &[&str] = &[
    "file",
    "file:r",
    "file:w",
    "file:rw,direct",
    "file:r,direct",
    "file:append",
    "file:path",
    "tmpfs",
    "tmpfs:r",
    "tmpfs:rw,direct",
    "memory",
    "part",
    "odd",
    "odd:rw,direct",
    "tiny",
    "empty",
    "sparse",
    "bdev",
    "bdev:r",
    "bdev:rw,direct",
    "bdev:w",
    "b4k",
    "b4k:r",
    "b4k:rw,direct",
    "f4k",
    "f4k:r",
    "f4k:rw,direct",
    "dir:r",
    "null",
    "zero",
    "tty",
    "proc:r",
    "sysfs:r",
    "pipe",
    "socket",
    "deep",
    "none",
    "closed",
    "X",
    "X:r",
    "Y",
    "Y:r",
    "X1",
];

/// And how.
const CONFIGURATIONS: &[&str] = &[
    "",
    "flags=1",
    "flags=4",
    "flags=8",
    "flags=16",
    "flags=29",
    "flags=2",
    "flags=32",
    "offset=512",
    "offset=4096 flags=16",
    "offset=100 limit=1000 flags=16",
    "limit=8192 bs=4096",
    "bs=512 flags=16",
    "bs=1024 flags=16",
    "bs=4096 flags=16",
    "bs=65536 flags=16",
    "offset=0x7fffffffffffffff",
    "limit=0x8000000000000000",
    "crypt=1",
    "crypt=18",
    "keysize=33",
    "keysize=32",
    "reserved=1",
    "name=0123456789012345678901234567890123456789012345678901234567890123456789",
];

/// Files for which every configuration is tried.
const CONFIGURED: &[&str] = &["file", "b4k", "f4k"];

/// Block sizes that are none: in-tree, these leave the device half bound, so each gets new devices.
const BAD_BLOCK_SIZES: &[&str] = &["1", "256", "513", "1000", "131072", "0x80000000"];

/// Sequences in an order of their own.
const SEQUENCES: &str = include_str!("../sequences");

/// The same, for a driver with parameters.
const PARAMETERS: &str = include_str!("../parameters");

/// The steps of each paragraph.
fn sequences(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split("\n\n").map(|sequence| {
        let lines = sequence.lines().filter(|line| !line.starts_with('#'));
        let steps = lines.flat_map(|line| line.split(';')).map(str::trim);
        steps.collect()
    })
}

/// The fixed steps for a driver with parameters.
pub fn parameters() -> Vec<String> {
    let mut steps = vec!["fresh"];
    for mut sequence in sequences(PARAMETERS) {
        steps.append(&mut sequence);
        steps.push("reset");
    }
    steps.into_iter().map(str::to_owned).collect()
}

/// The step, without a look at sysfs.
fn quick(step: &str) -> String {
    format!("quick {step}")
}

/// All fixed steps in order. 32-bit programs leave some out that differ in nothing that depends on
/// the word size.
pub fn steps() -> Vec<String> {
    let narrow = usize::BITS == 32;
    let mut steps = vec!["fresh".to_owned()];
    let mut add = |lines: &[&str]| {
        steps.extend(lines.iter().map(|line| (*line).to_owned()));
        steps.push("reset".to_owned());
    };
    for (name, setup) in STATES {
        // The way into a state is looked at once.
        let again: Vec<String> = setup.iter().map(|step| quick(step)).collect();
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        add(setup);
        let more_in = if narrow { &MORE_IN[..3] } else { MORE_IN };
        let more = MORE_PROBES.iter().filter(|_| more_in.contains(name));
        let refused = REFUSED.iter().filter(|_| REFUSED_IN.contains(name));
        for probe in PROBES.iter().chain(more).chain(refused) {
            let io = ["open ", "read ", "write ", "fsync "];
            if narrow && io.iter().any(|verb| probe.starts_with(verb)) {
                continue;
            }
            add(&[&again, &[*probe][..]].concat());
        }
        if ADDRESSED_IN.contains(name) {
            for cmd in COMMANDS {
                let calls: Vec<String> = ADDRESSES
                    .iter()
                    .map(|address| quick(&format!("ioctl P {cmd} {address}")))
                    .collect();
                let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
                add(&[&again, &calls[..]].concat());
            }
        }
    }
    let modes: &[&str] = if narrow { &[] } else { &["r", "rw"] };
    for mode in modes {
        for backing in BACKINGS {
            let bind = format!("conf P {backing}");
            let bind_direct = format!("conf P {backing} flags=16 offset=512");
            let open = quick(&format!("open P X {mode}"));
            add(&[
                &open,
                &bind,
                "get64 P",
                "get P",
                "read P 0 512",
                "quick write P 0 512 3",
            ]);
            add(&[&open, &bind_direct, "get64 P"]);
        }
    }
    let configured = if narrow { &CONFIGURED[..1] } else { CONFIGURED };
    for backing in configured {
        for configuration in CONFIGURATIONS {
            let bind = format!("conf P {backing} {configuration}");
            add(&["quick open P X rw", &bind, "get64 P", "read P 0 4096"]);
        }
    }
    for sequence in sequences(SEQUENCES) {
        add(&sequence);
    }
    for size in BAD_BLOCK_SIZES {
        // New ones before, too, so that what counts events and media changes begins afresh.
        let bind = format!("conf P file bs={size}");
        add(&[
            "fresh",
            "open P X rw",
            &bind,
            "trigger X",
            "conf P file",
            "close P",
        ]);
    }
    steps
}
