// SPDX-License-Identifier: GPL-2.0

//! What sysfs says of the two loop devices. Looking at it is most of what a step costs.

use crate::{
    actor::{name_of, NUMBERS},
    kapi::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Limits of the queue that are the file's or the driver's. The rest is the block layer's, or
/// differs on purpose (number of queues and of requests).
const QUEUE: [&str; 27] = [
    "chunk_sectors",
    "dax",
    "discard_granularity",
    "discard_max_bytes",
    "discard_max_hw_bytes",
    "dma_alignment",
    "fua",
    "hw_sector_size",
    "io_poll",
    "logical_block_size",
    "max_hw_sectors_kb",
    "max_integrity_segments",
    "max_sectors_kb",
    "max_segment_size",
    "max_segments",
    "max_write_zeroes_unmap_sectors",
    "minimum_io_size",
    "nomerges",
    "optimal_io_size",
    "physical_block_size",
    "rotational",
    "scheduler",
    "stable_writes",
    "virt_boundary_mask",
    "write_cache",
    "write_zeroes_max_bytes",
    "zoned",
];

const DISK: [&str; 8] = [
    "alignment_offset",
    "capability",
    "discard_alignment",
    "events",
    "ext_range",
    "range",
    "removable",
    "ro",
];

/// The six of the in-tree driver.
const LOOP: [&str; 6] = [
    "autoclear",
    "backing_file",
    "dio",
    "offset",
    "partscan",
    "sizelimit",
];

/// Name and value.
pub type Fields = Vec<(String, String)>;

/// An attribute, kept open, and what it was when it was last looked at.
struct Attribute {
    path: PathBuf,
    file: Option<File>,
    value: Option<Vec<u8>>,
}

impl Attribute {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            value: None,
        }
    }

    /// Looks at it; whether it is another value, or there is none any more.
    fn look(&mut self) -> bool {
        let mut buffer = [0; 4096];
        if let Some(file) = &self.file {
            match file.read_at(&mut buffer, 0) {
                // Its device is gone; there may be a new one of the same name.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => self.file = None,
                read => return self.set(&buffer, read),
            }
        }
        self.file = File::open(&self.path).ok();
        match &self.file {
            Some(file) => {
                let read = file.read_at(&mut buffer, 0);
                self.set(&buffer, read)
            }
            None => self.value.take().is_some(),
        }
    }

    fn set(&mut self, buffer: &[u8], read: std::io::Result<usize>) -> bool {
        let error;
        let value = match read {
            Ok(len) => buffer[..len].trim_ascii(),
            Err(why) => {
                error = Errno::from(why).to_string();
                error.as_bytes()
            }
        };
        let changed = self.value.as_deref() != Some(value);
        if changed {
            self.value = Some(value.to_owned());
        }
        changed
    }

    fn text(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// The same as [`Attribute::look`], as a field.
    fn look_as(&mut self, name: &str) -> Option<(String, String)> {
        self.look()
            .then(|| (name.to_owned(), self.text().unwrap_or("gone".to_owned())))
    }
}

/// One of the two devices.
struct Device {
    name: &'static str,
    dir: PathBuf,
    /// By the names of their fields.
    attributes: Vec<(String, Attribute)>,
    /// Those that are there only while the device is bound.
    of_binding: Vec<(String, Attribute)>,
    diskseq: Attribute,
    /// Of partitions, by their paths.
    of_partitions: BTreeMap<PathBuf, Attribute>,
    partitions: String,
    /// Links to the directory when partitions were last looked for.
    links: u64,
}

impl Device {
    fn new(name: &'static str) -> Self {
        let dir = Path::new("/sys/block").join(name_of(name));
        let attribute = |path: String| {
            let attribute = Attribute::new(dir.join(&path));
            (format!("{name}.{path}"), attribute)
        };
        let of_disk = ["size"].iter().chain(&DISK).map(|file| (*file).to_owned());
        let of_queue = QUEUE.iter().map(|file| format!("queue/{file}"));
        let of_binding = LOOP.iter().map(|file| format!("loop/{file}"));
        Self {
            name,
            attributes: of_disk.chain(of_queue).map(attribute).collect(),
            of_binding: of_binding.map(attribute).collect(),
            diskseq: Attribute::new(dir.join("diskseq")),
            of_partitions: BTreeMap::new(),
            partitions: String::new(),
            links: 0,
            dir,
        }
    }

    /// Adds what has changed. `events` tells that there were uevents.
    fn look(&mut self, events: bool, fields: &mut Fields) {
        for (name, attribute) in &mut self.attributes {
            fields.extend(attribute.look_as(name));
        }
        let bound = self.dir.join("loop").exists();
        for (name, attribute) in &mut self.of_binding {
            if bound || attribute.value.is_some() {
                fields.extend(attribute.look_as(name));
            }
        }
        // A partition is a directory, and none comes or goes without an event.
        let links = fs::metadata(&self.dir).map_or(0, |meta| meta.nlink());
        if events || links != self.links || !self.partitions.is_empty() {
            self.links = links;
            let partitions = self.look_for_partitions();
            if partitions != self.partitions {
                fields.push((format!("{}.partitions", self.name), partitions.clone()));
                self.partitions = partitions;
            }
        }
    }

    fn look_for_partitions(&mut self) -> String {
        let prefix = format!("{}p", name_of(self.name));
        let mut partitions = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(index) = name.strip_prefix(&prefix) else {
                continue;
            };
            let mut field = |field: &str| {
                let path = self.dir.join(&name).join(field);
                let attribute = self
                    .of_partitions
                    .entry(path.clone())
                    .or_insert_with(|| Attribute::new(path));
                attribute.look();
                attribute.text().unwrap_or_default()
            };
            let (start, size, ro) = (field("start"), field("size"), field("ro"));
            let mut text = format!("{index}:{start}+{size}/{ro}");
            // Of the driver's major; others are from a pool that all disks share.
            let dev = field("dev");
            if dev.starts_with("7:") {
                text.push_str(&format!("/{dev}"));
            }
            partitions.push(text);
        }
        partitions.sort();
        partitions.join(" ")
    }
}

/// Both devices, and the module.
pub struct Sysfs {
    devices: [Device; 2],
    module: Attribute,
    /// The highest sequence number of both disks.
    top_diskseq: u64,
    /// There were uevents since the last look.
    events: bool,
}

impl Sysfs {
    pub fn new(module: &str) -> Self {
        let refcnt = Path::new("/sys/module").join(module).join("refcnt");
        Self {
            devices: NUMBERS.map(|(name, _)| Device::new(name)),
            module: Attribute::new(refcnt),
            top_diskseq: 0,
            events: false,
        }
    }

    pub fn note_events(&mut self) {
        self.events = true;
    }

    /// What has changed since the last look at these devices. After `fresh`, they are new ones.
    pub fn look(&mut self, named: &BTreeSet<&'static str>, fresh: bool) -> Fields {
        let mut fields = Vec::new();
        let before = self.top_diskseq;
        for device in &mut self.devices {
            if !named.contains(device.name) {
                continue;
            }
            if device.diskseq.look() {
                let sequence = device.diskseq.text().and_then(|text| text.parse().ok());
                let sequence: u64 = sequence.unwrap_or(0);
                // One counter serves all disks: what counts is by how much it goes on. Other disks
                // come and go as well, but not while X and Y are made.
                if sequence != 0 && !fresh {
                    let delta = sequence.saturating_sub(before);
                    fields.push((format!("{}.diskseq", device.name), format!("+{delta}")));
                }
                self.top_diskseq = self.top_diskseq.max(sequence);
            }
            device.look(self.events, &mut fields);
        }
        self.events = false;
        fields.extend(self.module.look_as("module.refcnt"));
        fields
    }
}
