// SPDX-License-Identifier: GPL-2.0

//! Random steps. The generator knows nothing of the drivers; it only leans towards steps that get
//! somewhere. Left out is what the in-tree driver is known to do differently, see
//! `expected-differences`.

/// Steps of one sequence, which begins with new devices.
const SEQUENCE: usize = 60;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

const SLOTS: &[&str] = &["A", "B", "C", "D", "E", "F"];
const MODES: &[&str] = &[
    "r",
    "r",
    "rw",
    "rw",
    "rw",
    "rw",
    "rw",
    "w",
    "rw,excl",
    "r,excl",
    "rw,direct",
];
const BACKINGS: &[&str] = &[
    "file",
    "file",
    "file",
    "file:r",
    "file:rw,direct",
    "tmpfs",
    "tmpfs:r",
    "memory",
    "part",
    "part",
    "part2",
    "odd",
    "tiny",
    "empty",
    "sparse",
    "bdev",
    "bdev:r",
    "bdev:rw,direct",
    "b4k",
    "b4k:r",
    "b4k:rw,direct",
    "f4k",
    "f4k:rw,direct",
    "X",
    "Y",
    "X:r",
    "Y:r",
    "dir:r",
    "null",
    "pipe",
    "none",
    "closed",
    "file:append",
    "file:w",
];
const OFFSETS: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "511",
    "512",
    "1024",
    "4096",
    "65536",
    "262144",
    "300000",
    "0x7fffffffffffffff",
    "0x8000000000000000",
];
const LIMITS: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "512",
    "4096",
    "100000",
    "1000000",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
];
const FLAGS: &[&str] = &["0", "0", "1", "4", "8", "16", "12", "24", "17", "29"];
const BAD_FLAGS: &[&str] = &["2", "32", "0xffffffff"];
const BLOCK_SIZES: &[&str] = &["0", "512", "1024", "2048", "4096", "8192", "65536"];
const BAD_BLOCK_SIZES: &[&str] = &["1", "256", "1000", "131072", "0xffffffff"];
const SIZES: &[&str] = &["0", "511", "512", "4096", "100000", "262144", "524288"];
const POSITIONS: &[&str] = &[
    "0", "512", "4096", "8192", "65536", "99840", "261632", "262144",
];
const LENGTHS: &[&str] = &["512", "1024", "4096", "8192"];
const COMMANDS: &[&str] = &[
    "0x4c02", "0x4c03", "0x4c04", "0x4c05", "0x4c0a", "0x4c0b", "0x4c80",
];
const ADDRESSES: &[&str] = &["null", "low", "high", "cut", "constant"];

impl Random {
    fn status(&mut self, bad_flags: bool) -> String {
        let mut text = format!(" offset={}", self.pick(OFFSETS));
        if self.one_in(2) {
            text.push_str(&format!(" limit={}", self.pick(LIMITS)));
        }
        let flags = if bad_flags && self.one_in(8) {
            self.pick(BAD_FLAGS)
        } else {
            self.pick(FLAGS)
        };
        text.push_str(&format!(" flags={flags}"));
        if self.one_in(4) {
            text.push_str(&format!(" name=n{}", self.below(100)));
        }
        if self.one_in(20) {
            text.push_str(&format!(" crypt={}", self.below(20)));
        }
        if self.one_in(20) {
            text.push_str(&format!(" keysize={}", self.below(40)));
        }
        text
    }

    fn block(&mut self) -> String {
        match self.below(12) {
            0 => "rrpart".to_owned(),
            1 => "flsbuf".to_owned(),
            2 => format!("roset {}", self.below(2)),
            3 => format!("discard {} {}", self.pick(POSITIONS), self.pick(LENGTHS)),
            4 => format!("zeroout {} {}", self.pick(POSITIONS), self.pick(LENGTHS)),
            5 | 6 => {
                let (start, len) = (self.pick(POSITIONS), self.pick(LENGTHS));
                format!("add {} {start} {len}", 1 + self.below(4))
            }
            7 => format!("delete {}", 1 + self.below(4)),
            8 => "size64".to_owned(),
            9 => "ssz".to_owned(),
            10 => "bszget".to_owned(),
            _ => "roget".to_owned(),
        }
    }

    /// A step of one of the two processes.
    fn any_step(&mut self, open: &mut Openings) -> String {
        if !self.one_in(4) {
            return self.step(&mut open.own);
        }
        if self.one_in(40) {
            open.other.clear();
            return format!("other {}", self.pick(&["exit", "kill"]));
        }
        format!("other {}", self.step(&mut open.other))
    }

    /// A step by one of the openings that there may be.
    fn step(&mut self, open: &mut Vec<&'static str>) -> String {
        let mut slot = self.pick(SLOTS);
        if !open.is_empty() && !self.one_in(10) {
            slot = self.pick(open);
        }
        let kind = match open.len() {
            // Nothing else would come to anything.
            0 if !self.one_in(8) => 0,
            1 if self.one_in(4) => 0,
            _ => self.below(100),
        };
        let step = match kind {
            0..=15 => {
                let closed: Vec<_> = SLOTS
                    .iter()
                    .filter(|s| !open.contains(s))
                    .copied()
                    .collect();
                if !closed.is_empty() {
                    slot = self.pick(&closed);
                    open.push(slot);
                }
                let device =
                    self.pick(&["X", "X", "X", "X", "X", "X", "Y", "Y", "Y", "Y", "X1", "Y1"]);
                format!("open {slot} {device} {}", self.pick(MODES))
            }
            16..=24 => {
                open.retain(|s| *s != slot);
                format!("close {slot}")
            }
            25..=39 => {
                let mut text = format!("conf {slot} {}", self.pick(BACKINGS));
                if self.one_in(2) {
                    text.push_str(&self.status(true));
                }
                if self.one_in(4) {
                    text.push_str(&format!(" bs={}", self.pick(BLOCK_SIZES)));
                }
                text
            }
            40..=41 => format!("setfd {slot} {}", self.pick(BACKINGS)),
            42..=46 => format!("change {slot} {}", self.pick(BACKINGS)),
            47..=50 => format!("clr {slot}"),
            51..=58 => {
                let status = self.status(true);
                format!("status64 {slot}{status}")
            }
            59..=61 => {
                let status = self.status(true);
                format!("status {slot}{status}")
            }
            62..=65 => format!("get64 {slot}"),
            66..=67 => format!("get {slot}"),
            68..=70 => format!("capacity {slot}"),
            71..=73 => format!("dio {slot} {}", self.below(2)),
            74..=76 => {
                let size = if self.one_in(5) {
                    self.pick(BAD_BLOCK_SIZES)
                } else {
                    self.pick(BLOCK_SIZES)
                };
                format!("bs {slot} {size}")
            }
            77..=81 => {
                let request = self.block();
                format!("block {slot} {request}")
            }
            82..=86 => format!(
                "read {slot} {} {}",
                self.pick(POSITIONS),
                self.pick(LENGTHS)
            ),
            87..=91 => {
                let (position, length) = (self.pick(POSITIONS), self.pick(LENGTHS));
                format!("write {slot} {position} {length} {}", self.below(50))
            }
            92 => format!("fsync {slot}"),
            93 => format!(
                "ioctl {slot} {} {}",
                self.pick(COMMANDS),
                self.pick(ADDRESSES)
            ),
            94..=95 => {
                let file = self.pick(&["file", "part", "tmpfs", "odd", "empty"]);
                format!("truncate {file} {}", self.pick(SIZES))
            }
            96 => format!("ctl remove {}", 20 + self.below(2)),
            97 => format!("ctl add {}", 20 + self.below(2)),
            98 => format!("ctl free {}", self.below(2)),
            _ => format!("sysfs {} loop/backing_file", self.pick(&["X", "Y"])),
        };
        if self.one_in(8) {
            format!("nocap {step}")
        } else {
            step
        }
    }
}

/// Both processes' openings.
#[derive(Default)]
struct Openings {
    own: Vec<&'static str>,
    other: Vec<&'static str>,
}

/// The `count` steps of a seed, others for each word size.
pub fn steps(seed: u64, count: usize) -> Vec<String> {
    // No state of all zeroes, and neighbours far apart.
    let seed = 2 * seed + u64::from(usize::BITS == 32);
    let mut random = Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut steps = Vec::new();
    let mut open = Openings::default();
    for i in 0..count {
        if i % SEQUENCE == 0 {
            steps.push("fresh".to_owned());
            open = Openings::default();
        }
        let step = random.any_step(&mut open);
        let quick = if random.one_in(2) { "quick " } else { "" };
        steps.push(format!("{quick}{step}"));
    }
    steps
}
