// SPDX-License-Identifier: GPL-2.0

//! Carries out steps, and notes what comes of each.
//!
//! A step is a line of words; what they are is in [`World::act`]. X and Y are the two loop devices
//! that the steps are about, single letters A to F are openings of them. The outcome is a list of
//! fields: the result of the step itself, the uevents, and everything in sysfs that has changed.

use crate::{
    kapi::{self, Errno, Plain, Result},
    uapi::*,
    uevent::Monitor,
};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{
            fs::{FileExt, MetadataExt, OpenOptionsExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
};

/// Indexes of X and Y: above those that are made on load.
const NUMBERS: [(&str, u32); 2] = [("X", 20), ("Y", 21)];

/// Bytes of most images, and of what is made anew in block devices.
const IMAGE: usize = 256 << 10;

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

/// An opening of a loop device.
struct Opener {
    file: File,
    device: &'static str,
}

/// Name and value.
pub type Fields = Vec<(String, String)>;

/// See the module's documentation.
pub struct World {
    /// On the file system to test on, and on a tmpfs.
    work: PathBuf,
    memory: PathBuf,
    /// Block devices of 512 and of 4096 bytes a sector.
    disk: PathBuf,
    disk4k: PathBuf,
    module: &'static str,
    control: File,
    openers: BTreeMap<String, Opener>,
    monitor: Monitor,
    seen: BTreeMap<String, String>,
    diskseq: BTreeMap<&'static str, u64>,
    /// The highest of both.
    top_diskseq: u64,
    /// What each device was last bound to: device, inode, device of a node.
    bound: BTreeMap<&'static str, (u64, u64, u64)>,
    writable_page: kapi::Pages,
    constant_page: kapi::Pages,
    /// Ends of pipes and sockets that must outlive a step.
    kept: Vec<OwnedFd>,
    sysfs: Sysfs,
    /// A step may have changed what is in the files.
    dirty: bool,
}

/// Attributes, kept open: that they are looked at after each step is most of what a step costs.
#[derive(Default)]
struct Sysfs(BTreeMap<PathBuf, File>);

impl Sysfs {
    fn read(&mut self, path: &Path) -> Option<String> {
        let mut buffer = [0; 4096];
        if let Some(file) = self.0.get(path) {
            match file.read_at(&mut buffer, 0) {
                Ok(len) => return Some(String::from_utf8_lossy(buffer[..len].trim_ascii()).into()),
                // Its device is gone; there may be a new one of the same name.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => _ = self.0.remove(path),
                Err(error) => return Some(Errno::from(error).to_string()),
            }
        }
        let file = File::open(path).ok()?;
        let read = file.read_at(&mut buffer, 0);
        self.0.insert(path.to_owned(), file);
        match read {
            Ok(len) => Some(String::from_utf8_lossy(buffer[..len].trim_ascii()).into()),
            Err(error) => Some(Errno::from(error).to_string()),
        }
    }
}

/// Words of a step that are `key=value`.
struct Options<'a>(&'a [&'a str]);

impl<'a> Options<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number(&self, key: &str) -> u64 {
        self.get(key).map_or(0, number)
    }
}

/// A number, decimal or hexadecimal; negative ones in two's complement.
fn number(word: &str) -> u64 {
    let parsed = match (word.strip_prefix("0x"), word.strip_prefix('-')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (_, Some(_)) => word.parse::<i64>().map(|n| n as u64),
        _ => word.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("no number: {word}"))
}

/// The same as an argument of an ioctl; a 32-bit program has the low half.
fn argument(word: &str) -> usize {
    number(word) as usize
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn copy_text<const N: usize>(to: &mut [u8; N], text: &str) {
    let len = text.len().min(N);
    to[..len].copy_from_slice(&text.as_bytes()[..len]);
}

fn checksum(bytes: &[u8]) -> u32 {
    // FNV-1a.
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i >> 9) * 31 + i + seed * 77) as u8)
        .collect()
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

/// Memory at a multiple of 4096 for direct I/O.
fn aligned(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    memory.resize(len + 4096, 0);
    let skip = memory.as_ptr().align_offset(4096);
    &mut memory[skip..][..len]
}

fn show<T: std::fmt::Display>(result: Result<T>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(errno) => errno.to_string(),
    }
}

fn open(path: &Path, mode: &str) -> Result<File> {
    let mut options = OpenOptions::new();
    let mut flags = 0;
    for word in mode.split(',') {
        match word {
            "r" => _ = options.read(true),
            "w" => _ = options.write(true),
            "rw" => _ = options.read(true).write(true),
            "excl" => flags |= libc::O_EXCL,
            "direct" => flags |= libc::O_DIRECT,
            "append" => _ = options.append(true),
            "nonblock" => flags |= libc::O_NONBLOCK,
            // Access modes are none of a path's business, but the library wants one.
            "path" => {
                options.read(true);
                flags |= libc::O_PATH;
            }
            _ => panic!("no mode: {word}"),
        }
    }
    Ok(options.custom_flags(flags).open(path)?)
}

fn name_of(device: &str) -> String {
    match NUMBERS.iter().find(|(name, _)| *name == device) {
        Some((_, number)) => format!("loop{number}"),
        // X and the number of a partition.
        None => format!("{}p{}", name_of(&device[..1]), &device[1..]),
    }
}

fn node(device: &str) -> PathBuf {
    Path::new("/dev").join(name_of(device))
}

impl World {
    /// `module` is loaded. Makes X and Y.
    pub fn new(work: &str, memory: &str, disk: &str, disk4k: &str, module: &str) -> Result<Self> {
        let mut world = Self {
            work: work.into(),
            memory: memory.into(),
            disk: disk.into(),
            disk4k: disk4k.into(),
            module: if module == "loop" {
                "loop"
            } else {
                "rust_loop"
            },
            control: open(Path::new("/dev/loop-control"), "rw")?,
            openers: BTreeMap::new(),
            monitor: Monitor::new()?,
            seen: BTreeMap::new(),
            diskseq: BTreeMap::new(),
            top_diskseq: 0,
            bound: BTreeMap::new(),
            writable_page: kapi::Pages::new(true),
            constant_page: kapi::Pages::new(false),
            kept: Vec::new(),
            sysfs: Sysfs::default(),
            dirty: true,
        };
        world.refill();
        Ok(world)
    }

    /// Carries out one step.
    pub fn step(&mut self, step: &str) -> Fields {
        let mut words: Vec<&str> = step.split_whitespace().collect();
        let admin = words.first() != Some(&"nocap");
        if !admin {
            words.remove(0);
            kapi::set_admin(false).unwrap_or_else(|errno| panic!("capset: {errno}"));
        }
        self.dirty |= matches!(words[0], "write" | "block" | "truncate" | "unlink");
        let result = self.act(&words);
        // Nothing changes by looking at it, nor by what was not carried out.
        let idle = matches!(words[0], "get" | "get64" | "read" | "sysfs")
            || matches!(&*result, "none" | "taken");
        if !admin {
            kapi::set_admin(true).unwrap_or_else(|errno| panic!("capset: {errno}"));
        }
        self.kept.clear();
        let mut fields = vec![("result".to_owned(), result)];
        if idle {
            return fields;
        }
        let events = self.monitor.events();
        if !events.is_empty() {
            fields.push(("uevents".to_owned(), events.join(" ")));
        }
        self.observe(&words, &mut fields);
        fields
    }

    fn act(&mut self, words: &[&str]) -> String {
        let [verb, rest @ ..] = words else {
            return String::new();
        };
        match (*verb, rest) {
            ("fresh", []) => self.fresh(),
            ("reset", []) => self.reset(),
            ("open", [slot, device, mode]) => {
                if self.openers.contains_key(*slot) {
                    return "taken".to_owned();
                }
                let file = open(&node(device), mode);
                let device = if device.starts_with('X') { "X" } else { "Y" };
                show(file.map(|file| {
                    self.openers
                        .insert((*slot).to_owned(), Opener { file, device });
                    "ok"
                }))
            }
            ("close", [slot]) => match self.openers.remove(*slot) {
                Some(_) => "ok".to_owned(),
                None => "none".to_owned(),
            },
            ("ctl", ["add", index]) => show(self.control(LOOP_CTL_ADD, index)),
            ("ctl", ["remove", index]) => show(self.control(LOOP_CTL_REMOVE, index)),
            ("ctl", ["free", index]) => show(self.control(LOOP_CTL_GET_FREE, index)),
            ("ctl", [cmd, index]) => show(self.control(number(cmd) as u32, index)),
            ("ondemand", [minor]) => {
                let path = self.memory.join("node");
                _ = fs::remove_file(&path);
                let made = kapi::make_block_node(&path.to_string_lossy(), 7, number(minor) as u32);
                show(made.and_then(|()| open(&path, "r")).map(|_| "ok"))
            }
            ("truncate", [backing, size]) => {
                let file = open(&self.path_of(backing), "rw");
                show(
                    file.and_then(|f| Ok(f.set_len(number(size))?))
                        .map(|()| "ok"),
                )
            }
            ("unlink", [backing]) => show(
                fs::remove_file(self.path_of(backing))
                    .map(|()| "ok")
                    .map_err(Errno::from),
            ),
            // An event on request.
            ("trigger", [device]) => {
                let path = Path::new("/sys/block").join(name_of(device)).join("uevent");
                show(
                    fs::write(path, "change")
                        .map(|()| "ok")
                        .map_err(Errno::from),
                )
            }
            ("sysfs", [device, file]) => {
                let path = Path::new("/sys/block").join(name_of(device)).join(file);
                match fs::read_to_string(path) {
                    Ok(text) => text.trim_end().replace('\n', "|"),
                    Err(error) => Errno::from(error).to_string(),
                }
            }
            (verb, [slot, rest @ ..]) => {
                let Some(opener) = self.openers.get(*slot) else {
                    return "none".to_owned();
                };
                let (fd, device) = (opener.file.as_raw_fd(), opener.device);
                self.on_device(verb, fd, device, rest)
            }
            _ => panic!("no step: {words:?}"),
        }
    }

    fn control(&self, cmd: u32, arg: &str) -> Result<i32> {
        kapi::ioctl_value(self.control.as_raw_fd(), cmd, argument(arg))
    }

    /// Steps with an opening of a device.
    fn on_device(&mut self, verb: &str, fd: RawFd, device: &'static str, words: &[&str]) -> String {
        let options = Options(words);
        match (verb, words) {
            ("conf", [backing, ..]) => self.with_file(backing, device, |file| {
                let mut config: LoopConfig = kapi::zeroed();
                config.fd = file as u32;
                config.block_size = options.number("bs") as u32;
                config.info = info64(&options);
                config.reserved = [options.number("reserved"); 8];
                kapi::ioctl_struct(fd, LOOP_CONFIGURE, &mut config)
            }),
            ("setfd", [backing]) => self.with_file(backing, device, |file| {
                kapi::ioctl_value(fd, LOOP_SET_FD, file as usize)
            }),
            ("change", [backing]) => self.with_file(backing, device, |file| {
                kapi::ioctl_value(fd, LOOP_CHANGE_FD, file as usize)
            }),
            ("clr", []) => show(kapi::ioctl_value(fd, LOOP_CLR_FD, 0)),
            ("capacity", []) => show(kapi::ioctl_value(fd, LOOP_SET_CAPACITY, 0)),
            ("dio", [arg]) => show(kapi::ioctl_value(fd, LOOP_SET_DIRECT_IO, argument(arg))),
            ("bs", [arg]) => show(kapi::ioctl_value(fd, LOOP_SET_BLOCK_SIZE, argument(arg))),
            ("status64", _) => show(kapi::ioctl_struct(
                fd,
                LOOP_SET_STATUS64,
                &mut info64(&options),
            )),
            ("status", _) => show(kapi::ioctl_struct(
                fd,
                LOOP_SET_STATUS,
                &mut old_info(&options),
            )),
            ("get64", []) => self.get_status64(fd, device),
            ("get", []) => self.get_status(fd, device),
            ("ioctl", [cmd, arg]) => {
                show(kapi::ioctl_value(fd, number(cmd) as u32, self.wild(arg)))
            }
            ("block", [what, args @ ..]) => block_ioctl(fd, what, args),
            ("read", [offset, len]) => self.read(fd, number(offset), argument(len)),
            ("write", [offset, len, seed]) => {
                let mut memory = Vec::new();
                let buffer = aligned(&mut memory, argument(len));
                buffer.copy_from_slice(&pattern(argument(len), argument(seed)));
                show(
                    self.file(fd)
                        .write_at(buffer, number(offset))
                        .map_err(Errno::from),
                )
            }
            ("fsync", []) => show(self.file(fd).sync_all().map(|()| "ok").map_err(Errno::from)),
            _ => panic!("no step: {verb} {words:?}"),
        }
    }

    fn file(&self, fd: RawFd) -> &File {
        let opener = self.openers.values().find(|o| o.file.as_raw_fd() == fd);
        &opener.expect("an opener").file
    }

    fn read(&self, fd: RawFd, offset: u64, len: usize) -> String {
        let mut memory = Vec::new();
        let buffer = aligned(&mut memory, len);
        match self.file(fd).read_at(buffer, offset) {
            Ok(len) => format!("{len}:{:08x}", checksum(&buffer[..len])),
            Err(error) => Errno::from(error).to_string(),
        }
    }

    /// Addresses that are not what an ioctl hopes for, or a number.
    fn wild(&self, arg: &str) -> usize {
        match arg {
            "null" => 0,
            "low" => 0x1000,
            "high" => usize::MAX - 0xfff,
            // The largest of the structures is longer than this, the smallest is not shorter.
            "cut" => self.writable_page.before_end(64),
            "constant" => self.constant_page.start(),
            _ => argument(arg),
        }
    }

    fn path_of(&self, backing: &str) -> PathBuf {
        match backing {
            "tmpfs" | "part2" => self.memory.join(backing),
            "bdev" => self.disk.clone(),
            "b4k" => self.disk4k.clone(),
            "dir" => self.work.clone(),
            "null" => "/dev/null".into(),
            "zero" => "/dev/zero".into(),
            "tty" => "/dev/ptmx".into(),
            "proc" => "/proc/version".into(),
            "sysfs" => "/sys/kernel/uevent_seqnum".into(),
            "X" | "Y" | "X1" | "Y1" => node(backing),
            _ => self.work.join(backing),
        }
    }

    /// Opens what a device may be bound to, and calls `f` with the descriptor. Its name is that of
    /// [`World::path_of`], and the mode after a colon.
    fn with_file(
        &mut self,
        backing: &str,
        device: &'static str,
        f: impl FnOnce(RawFd) -> Result<i32>,
    ) -> String {
        let (name, mode) = backing.split_once(':').unwrap_or((backing, "rw"));
        let file = match name {
            "none" => return show(f(-1)),
            "closed" => return show(f(999)),
            "memory" => kapi::memory_file().and_then(|file| {
                file.set_len(IMAGE as u64)?;
                Ok(file)
            }),
            "pipe" => kapi::pipe().map(|(read, write)| {
                self.kept.push(write.into());
                read
            }),
            "socket" => UnixStream::pair().map_err(Errno::from).map(|(one, other)| {
                self.kept.push(other.into());
                File::from(OwnedFd::from(one))
            }),
            "deep" => self.deep_file(),
            _ => open(&self.path_of(name), mode),
        };
        let file = match file {
            Ok(file) => file,
            Err(errno) => return format!("open:{errno}"),
        };
        let result = f(file.as_raw_fd());
        if result.is_ok() {
            if let Ok(meta) = file.metadata() {
                self.bound
                    .insert(device, (meta.dev(), meta.ino(), meta.rdev()));
            }
        }
        drop(file);
        show(result)
    }

    /// A file whose path is longer than a page.
    fn deep_file(&self) -> Result<File> {
        let before = std::env::current_dir()?;
        std::env::set_current_dir(&self.work)?;
        let name = "d".repeat(250);
        for _ in 0..20 {
            _ = fs::create_dir(&name);
            std::env::set_current_dir(&name)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open("file");
        std::env::set_current_dir(before)?;
        let file = file?;
        file.set_len(IMAGE as u64)?;
        Ok(file)
    }

    /// How a device number and an inode number of a status compare with those of the file.
    fn identity(&self, device: &str, dev: u64, inode: u64, rdev: u64) -> String {
        // From the C library's form to huge_encode_dev()'s.
        let encode = |dev: u64| {
            let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff);
            let minor = (dev & 0xff) | ((dev >> 12) & !0xff);
            (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
        };
        let Some((want_dev, want_inode, want_rdev)) = self.bound.get(device) else {
            return format!("dev={dev:x} ino={inode} rdev={rdev:x}");
        };
        let same = |a: u64, b: u64| if a == b { "same" } else { "other" };
        format!(
            "dev={} ino={} rdev={}",
            same(dev, encode(*want_dev)),
            same(inode, *want_inode),
            same(rdev, encode(*want_rdev))
        )
    }

    fn get_status64(&self, fd: RawFd, device: &str) -> String {
        let mut info: LoopInfo64 = kapi::zeroed();
        // What the kernel leaves alone shows.
        info.encrypt_key = [0xee; 32];
        if let Err(errno) = kapi::ioctl_struct(fd, LOOP_GET_STATUS64, &mut info) {
            return errno.to_string();
        }
        format!(
            "{} offset={} sizelimit={} number={} crypt={}/{} flags={:#x} name={} rest={}",
            self.identity(device, info.device, info.inode, info.rdevice),
            info.offset,
            info.sizelimit,
            info.number,
            info.encrypt_type,
            info.encrypt_key_size,
            info.flags,
            text_of(&info.file_name),
            checksum(&[&info.crypt_name[..], &info.encrypt_key[..]].concat())
                ^ info.init[0] as u32
                ^ info.init[1] as u32
        )
    }

    fn get_status(&self, fd: RawFd, device: &str) -> String {
        let mut info: LoopInfo = kapi::zeroed();
        info.encrypt_key = [0xee; 32];
        info.reserved = [0xee; 4];
        if let Err(errno) = kapi::ioctl_struct(fd, LOOP_GET_STATUS, &mut info) {
            return errno.to_string();
        }
        #[allow(clippy::useless_conversion, reason = "u16 in 32-bit programs")]
        let (dev, rdev) = (u64::from(info.device), u64::from(info.rdevice));
        format!(
            "{} offset={} number={} crypt={}/{} flags={:#x} name={} rest={}",
            self.identity(device, dev, info.inode as u64, rdev),
            info.offset,
            info.number,
            info.encrypt_type,
            info.encrypt_key_size,
            info.flags,
            text_of(&info.name),
            checksum(&[&info.encrypt_key[..], &info.reserved[..]].concat())
                ^ info.init[0] as u32
                ^ info.init[1] as u32
        )
    }

    /// All openings closed, both devices unbound, all files as they were at first.
    fn reset(&mut self) -> String {
        // Y may be bound to X.
        let slots: Vec<String> = self.openers.keys().cloned().collect();
        for slot in slots {
            self.openers.remove(&slot);
        }
        let mut left = String::from("ok");
        for (device, _) in NUMBERS.iter().rev() {
            let loop_dir = Path::new("/sys/block").join(name_of(device)).join("loop");
            if !loop_dir.exists() {
                continue;
            }
            let cleared = open(&node(device), "r")
                .and_then(|file| kapi::ioctl_value(file.as_raw_fd(), LOOP_CLR_FD, 0));
            left.push_str(&format!(" {device}={}", show(cleared)));
        }
        self.refill();
        left
    }

    /// The same, and new devices.
    fn fresh(&mut self) -> String {
        let mut result = self.reset();
        for (device, number) in NUMBERS {
            let index = number.to_string();
            let removed = show(self.control(LOOP_CTL_REMOVE, &index));
            let added = show(self.control(LOOP_CTL_ADD, &index));
            if removed != "0" || added != index {
                result.push_str(&format!(" {device}={removed}/{added}"));
            }
            self.bound.remove(device);
        }
        result
    }

    /// Leaves the driver unused.
    pub fn end(mut self) {
        self.reset();
        for (_, number) in NUMBERS {
            _ = self.control(LOOP_CTL_REMOVE, &number.to_string());
        }
    }

    fn refill(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let plain = pattern(IMAGE, 0);
        let mut part = plain.clone();
        partition_table(&mut part, &[(8, 64), (128, 200)]);
        let mut part2 = plain.clone();
        partition_table(&mut part2, &[(16, 32), (64, 64), (256, 128)]);
        let fill = |name: &str, bytes: &[u8], size: u64| {
            let path = self.path_of(name);
            let mut options = OpenOptions::new();
            let node = path.starts_with("/dev");
            options.write(true).create(!node).truncate(!node);
            let mut file = options
                .open(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            file.write_all(bytes)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if !node {
                file.set_len(size)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        };
        fill("file", &plain, IMAGE as u64);
        fill("tmpfs", &plain, IMAGE as u64);
        fill("part", &part, IMAGE as u64);
        fill("part2", &part2, IMAGE as u64);
        fill("odd", &plain[..100_001], 100_001);
        fill("tiny", &plain[..511], 511);
        fill("empty", &[], 0);
        fill("sparse", &[], 8 << 40);
        fill("deleted", &plain, IMAGE as u64);
        fill("bdev", &plain, 0);
        fill("b4k", &plain, 0);
    }

    /// Adds what has changed in sysfs to `fields`.
    fn observe(&mut self, words: &[&str], fields: &mut Fields) {
        let mut now = BTreeMap::new();
        let top_diskseq = self.top_diskseq;
        for (device, _) in NUMBERS {
            let dir = Path::new("/sys/block").join(name_of(device));
            let sysfs = &mut self.sysfs;
            let mut read = |file: &str| sysfs.read(&dir.join(file));
            let mut note = |name: String, value: Option<String>| {
                if let Some(value) = value {
                    now.insert(format!("{device}.{name}"), value);
                }
            };
            if let Some(sequence) = read("diskseq").and_then(|text| text.parse().ok()) {
                // One counter serves all disks: what counts is by how much it goes on. Other
                // disks come and go as well, but not while X and Y are made.
                let before = self.diskseq.insert(device, sequence);
                if before != Some(sequence) && words != ["fresh"] {
                    let delta = sequence.saturating_sub(top_diskseq);
                    fields.push((format!("{device}.diskseq"), format!("+{delta}")));
                }
                self.top_diskseq = self.top_diskseq.max(sequence);
            }
            note("size".to_owned(), read("size"));
            for name in DISK {
                note(name.to_owned(), read(name));
            }
            for name in QUEUE {
                note(format!("queue/{name}"), read(&format!("queue/{name}")));
            }
            if dir.join("loop").exists() {
                for name in LOOP {
                    note(format!("loop/{name}"), read(&format!("loop/{name}")));
                }
            }
            let mut partitions = Vec::new();
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if let Some(index) = name.strip_prefix(&format!("{}p", name_of(device))) {
                    let mut field =
                        |field: &str| read(&format!("{name}/{field}")).unwrap_or_default();
                    let (start, size, ro) = (field("start"), field("size"), field("ro"));
                    partitions.push(format!("{index}:{start}+{size}/{ro}"));
                }
            }
            partitions.sort();
            note("partitions".to_owned(), Some(partitions.join(" ")));
        }
        if let Ok(text) = fs::read_to_string(format!("/sys/module/{}/refcnt", self.module)) {
            now.insert("module.refcnt".to_owned(), text.trim_end().to_owned());
        }
        for (name, value) in &now {
            if self.seen.get(name) != Some(value) {
                fields.push((name.clone(), value.clone()));
            }
        }
        for name in self.seen.keys() {
            if !now.contains_key(name) {
                fields.push((name.clone(), "gone".to_owned()));
            }
        }
        self.seen = now;
    }
}

fn info64(options: &Options<'_>) -> LoopInfo64 {
    let mut info: LoopInfo64 = kapi::zeroed();
    info.offset = options.number("offset");
    info.sizelimit = options.number("limit");
    info.flags = options.number("flags") as u32;
    info.encrypt_type = options.number("crypt") as u32;
    info.encrypt_key_size = options.number("keysize") as u32;
    copy_text(&mut info.file_name, options.get("name").unwrap_or(""));
    copy_text(
        &mut info.crypt_name,
        options.get("crypt_name").unwrap_or(""),
    );
    info
}

fn old_info(options: &Options<'_>) -> LoopInfo {
    let mut info: LoopInfo = kapi::zeroed();
    info.offset = options.number("offset") as i32;
    info.flags = options.number("flags") as i32;
    info.encrypt_type = options.number("crypt") as i32;
    info.encrypt_key_size = options.number("keysize") as i32;
    copy_text(&mut info.name, options.get("name").unwrap_or(""));
    info
}

/// `_IO(0x12, nr)`.
const fn block_io(nr: u32) -> u32 {
    0x1200 | nr
}

/// `_IOR(0x12, nr, bytes)`.
const fn block_read(nr: u32, bytes: usize) -> u32 {
    (2 << 30) | ((bytes as u32) << 16) | 0x1200 | nr
}

/// Asks for a value.
fn query<T: Plain + std::fmt::Display>(fd: RawFd, cmd: u32) -> String {
    let mut value: T = kapi::zeroed();
    show(kapi::ioctl_struct(fd, cmd, &mut value).map(|_| value))
}

/// The block layer's ioctls, as far as drivers and their limits have a part in them.
fn block_ioctl(fd: RawFd, what: &str, args: &[&str]) -> String {
    match (what, args) {
        ("roset", [value]) => show(kapi::ioctl_struct(
            fd,
            block_io(93),
            &mut (number(value) as i32),
        )),
        ("roget", []) => query::<i32>(fd, block_io(94)),
        ("rrpart", []) => show(kapi::ioctl_value(fd, block_io(95), 0)),
        ("getsize", []) => query::<usize>(fd, block_io(96)),
        ("flsbuf", []) => show(kapi::ioctl_value(fd, block_io(97), 0)),
        ("raget", []) => query::<usize>(fd, block_io(99)),
        ("ssz", []) => query::<i32>(fd, block_io(104)),
        ("bszget", []) => query::<i32>(fd, block_read(112, size_of::<usize>())),
        ("size64", []) => query::<u64>(fd, block_read(114, size_of::<usize>())),
        ("iomin", []) => query::<u32>(fd, block_io(120)),
        ("ioopt", []) => query::<u32>(fd, block_io(121)),
        ("alignoff", []) => query::<i32>(fd, block_io(122)),
        ("pbsz", []) => query::<u32>(fd, block_io(123)),
        ("rotational", []) => {
            let mut value = 0u32;
            // It writes a `short`.
            show(kapi::ioctl_struct(fd, block_io(126), &mut value).map(|_| value & 0xffff))
        }
        ("discard", [offset, len]) => show(kapi::ioctl_struct(
            fd,
            block_io(119),
            &mut [number(offset), number(len)],
        )),
        ("secdiscard", [offset, len]) => show(kapi::ioctl_struct(
            fd,
            block_io(125),
            &mut [number(offset), number(len)],
        )),
        ("zeroout", [offset, len]) => show(kapi::ioctl_struct(
            fd,
            block_io(127),
            &mut [number(offset), number(len)],
        )),
        ("add", [index, start, len]) => partition(fd, 1, index, start, len),
        ("delete", [index]) => partition(fd, 2, index, "0", "0"),
        ("resize", [index, start, len]) => partition(fd, 3, index, start, len),
        // A floppy's, a disk's geometry, a CD's: what probing programs try.
        ("fdflush", []) => show(kapi::ioctl_value(fd, 0x24b, 0)),
        ("geometry", []) => show(kapi::ioctl_struct(fd, 0x301, &mut [0u64; 2]).map(|_| "some")),
        ("cdrom", []) => show(kapi::ioctl_value(fd, 0x5331, 0)),
        _ => panic!("no block ioctl: {what} {args:?}"),
    }
}

/// BLKPG.
fn partition(fd: RawFd, op: i32, index: &str, start: &str, len: &str) -> String {
    let mut data: BlkpgPartition = kapi::zeroed();
    data.pno = number(index) as i32;
    data.start = number(start) as i64;
    data.length = number(len) as i64;
    let mut arg = BlkpgArg {
        op,
        flags: 0,
        datalen: size_of_val(&data) as i32,
        data: &raw const data,
    };
    show(kapi::ioctl_struct(fd, block_io(105), &mut arg))
}
