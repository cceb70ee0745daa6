// SPDX-License-Identifier: GPL-2.0

//! Notes what comes of each step: its result, the uevents, and everything in sysfs that has
//! changed. Most steps are this process's; those that begin with `other` are a second one's. After
//! one that begins with `quick`, sysfs is not looked at: what has changed then shows at the next.

use crate::{
    actor::{pattern, Actor, Places, IMAGE, NUMBERS},
    kapi::Result,
    other::Other,
    sysfs::{Fields, Sysfs},
    uevent::Monitor,
};
use std::{collections::BTreeSet, fs::OpenOptions, io::Write};

/// See the module's documentation.
pub struct World {
    places: Places,
    actor: Actor,
    other: Other,
    monitor: Monitor,
    sysfs: Sysfs,
    /// Devices that steps have had to do with since all were last brought back.
    named: BTreeSet<&'static str>,
    images: Images,
}

/// An MBR with these partitions, start and length in blocks.
fn partition_table(image: &mut [u8], partitions: &[(u32, u32)]) {
    image[..512].fill(0);
    for (i, (start, length)) in partitions.iter().enumerate() {
        let entry = &mut image[446 + 16 * i..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&length.to_le_bytes());
    }
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// The files that devices are bound to, and what is in them at first.
struct Images {
    /// Name, bytes, size. Block devices keep theirs.
    all: Vec<(&'static str, Vec<u8>, u64)>,
    /// Names of those that steps have to do with.
    used: BTreeSet<String>,
    /// A step may have changed what is in those.
    dirty: bool,
}

impl Images {
    fn new() -> Self {
        let plain = pattern(IMAGE, 0);
        let mut part = plain.clone();
        partition_table(&mut part, &[(8, 64), (128, 200)]);
        let mut part2 = plain.clone();
        partition_table(&mut part2, &[(16, 32), (64, 64), (256, 128)]);
        let whole = IMAGE as u64;
        // As far as steps write.
        let mut start_of_disk = plain.clone();
        start_of_disk.resize(5 * IMAGE / 2, 0);
        let all = vec![
            ("file", plain.clone(), whole),
            ("tmpfs", plain.clone(), whole),
            ("f4k", plain.clone(), whole),
            ("part", part, whole),
            ("part2", part2, whole),
            ("odd", plain[..100_001].to_vec(), 100_001),
            ("tiny", plain[..511].to_vec(), 511),
            ("empty", Vec::new(), 0),
            ("sparse", Vec::new(), 8 << 40),
            ("deleted", plain, whole),
            ("bdev", start_of_disk.clone(), 0),
            ("b4k", start_of_disk, 0),
        ];
        Self {
            used: all.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            all,
            dirty: true,
        }
    }

    /// Notes which ones a step changes, or may lead to a change of.
    fn note(&mut self, words: &[&str]) {
        match words {
            ["conf" | "setfd" | "change", _, backing, ..] => {
                let name = backing.split(':').next().unwrap_or(backing);
                self.used.insert(name.to_owned());
            }
            ["truncate" | "unlink", name, ..] => {
                self.used.insert((*name).to_owned());
                self.dirty = true;
            }
            ["write" | "block", ..] => self.dirty = true,
            _ => {}
        }
    }

    /// All as they were at first; no device is bound.
    fn refill(&mut self, places: &Places) {
        let used = std::mem::take(&mut self.used);
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        for (name, bytes, size) in self.all.iter().filter(|(name, ..)| used.contains(*name)) {
            let path = places.path_of(name);
            let node = path.starts_with("/dev");
            let fill = || {
                let mut options = OpenOptions::new();
                options.write(true).create(!node).truncate(!node);
                let mut file = options.open(&path)?;
                file.write_all(bytes)?;
                if !node {
                    file.set_len(*size)?;
                }
                std::io::Result::Ok(())
            };
            fill().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

impl World {
    /// `module` is loaded.
    pub fn new(places: Places, module: &str) -> Result<Self> {
        let mut world = Self {
            actor: Actor::new(places.clone())?,
            other: Other::new(&places),
            monitor: Monitor::new()?,
            sysfs: Sysfs::new(module),
            named: BTreeSet::new(),
            images: Images::new(),
            places,
        };
        world.images.refill(&world.places);
        Ok(world)
    }

    /// Carries out one step.
    pub fn step(&mut self, step: &str) -> Fields {
        let (step, quick) = match step.strip_prefix("quick ") {
            Some(step) => (step, true),
            None => (step, false),
        };
        let words: Vec<&str> = step
            .split_whitespace()
            .filter(|word| !matches!(*word, "other" | "nocap"))
            .collect();
        self.images.note(&words);
        let result = match (step, step.strip_prefix("other ")) {
            ("reset", _) => self.reset(),
            ("fresh", _) => self.reset() + &self.actor.renew(),
            (_, Some("exit")) => self.other.end(false),
            (_, Some("kill")) => self.other.end(true),
            (_, Some(step)) => self.other.act(step),
            (step, None) => self.actor.act(step),
        };
        // Nothing changes by looking at it, nor by what was not carried out.
        let idle = quick
            || matches!(words[0], "get" | "get64" | "read" | "sysfs")
            || matches!(&*result, "none" | "taken");
        let mut fields = vec![("result".to_owned(), result)];
        let events = self.monitor.events();
        if !events.is_empty() {
            self.sysfs.note_events();
            fields.push(("uevents".to_owned(), events.join(" ")));
        }
        let all = matches!(words[0], "ctl" | "ondemand" | "fresh");
        for (device, _) in NUMBERS {
            if all || words.iter().any(|word| word.starts_with(device)) {
                self.named.insert(device);
            }
        }
        if !idle {
            fields.extend(self.sysfs.look(&self.named, step == "fresh"));
        }
        if step == "reset" {
            self.named.clear();
        }
        fields
    }

    /// All openings closed, both devices unbound, all files as they were at first.
    fn reset(&mut self) -> String {
        self.actor.close_all();
        self.other.close_all();
        let result = self.actor.unbind_all();
        self.images.refill(&self.places);
        result
    }

    /// Leaves the driver unused.
    pub fn end(mut self) {
        self.other.close_all();
        self.actor.end();
    }
}
