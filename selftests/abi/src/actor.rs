// SPDX-License-Identifier: GPL-2.0

//! Carries out steps.
//!
//! A step is a line of words; what they are is in [`Actor::act`]. X and Y are the two loop devices
//! that the steps are about, single letters A to F are openings of them.

use crate::{
    kapi::{self, Errno, Plain, Result},
    uapi::*,
};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
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
pub const NUMBERS: [(&str, u32); 2] = [("X", 20), ("Y", 21)];

/// Bytes of most images, and of what is made anew in block devices.
pub const IMAGE: usize = 256 << 10;

/// Where the files are that devices are bound to.
#[derive(Clone)]
pub struct Places {
    /// On the file system to test on, on a tmpfs, and on a file system on a disk of 4096-byte
    /// sectors.
    pub work: PathBuf,
    pub memory: PathBuf,
    pub work4k: PathBuf,
    /// Block devices of 512 and of 4096 bytes a sector.
    pub disk: PathBuf,
    pub disk4k: PathBuf,
}

impl Places {
    pub fn from_args(args: &[String; 5]) -> Self {
        let [work, memory, work4k, disk, disk4k] = args.each_ref().map(PathBuf::from);
        Self {
            work,
            memory,
            work4k,
            disk,
            disk4k,
        }
    }

    pub fn to_args(&self) -> [String; 5] {
        [
            &self.work,
            &self.memory,
            &self.work4k,
            &self.disk,
            &self.disk4k,
        ]
        .map(|path| path.display().to_string())
    }

    /// What a device is bound to by that name.
    pub fn path_of(&self, backing: &str) -> PathBuf {
        match backing {
            "tmpfs" | "part2" => self.memory.join(backing),
            "f4k" => self.work4k.join(backing),
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
}

/// An opening of a loop device.
struct Opener {
    file: File,
    device: &'static str,
}
/// A process that has openings.
pub struct Actor {
    places: Places,
    control: File,
    openers: BTreeMap<String, Opener>,
    /// What each device was last bound to by this process: device, inode, device of a node.
    bound: BTreeMap<&'static str, (u64, u64, u64)>,
    writable_page: kapi::Pages,
    constant_page: kapi::Pages,
    /// Ends of pipes and sockets that must outlive a step.
    kept: Vec<OwnedFd>,
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

pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i >> 9) * 31 + i + seed * 77) as u8)
        .collect()
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

pub fn name_of(device: &str) -> String {
    match NUMBERS.iter().find(|(name, _)| *name == device) {
        Some((_, number)) => format!("loop{number}"),
        // X and the number of a partition.
        None => format!("{}p{}", name_of(&device[..1]), &device[1..]),
    }
}

fn node(device: &str) -> PathBuf {
    Path::new("/dev").join(name_of(device))
}
impl Actor {
    /// The driver is loaded.
    pub fn new(places: Places) -> Result<Self> {
        Ok(Self {
            places,
            control: open(Path::new("/dev/loop-control"), "rw")?,
            openers: BTreeMap::new(),
            bound: BTreeMap::new(),
            writable_page: kapi::Pages::new(true),
            constant_page: kapi::Pages::new(false),
            kept: Vec::new(),
        })
    }

    /// Carries out one step; its result.
    pub fn act(&mut self, step: &str) -> String {
        let mut words: Vec<&str> = step.split_whitespace().collect();
        let admin = words.first() != Some(&"nocap");
        if !admin {
            words.remove(0);
            kapi::set_admin(false).unwrap_or_else(|errno| panic!("capset: {errno}"));
        }
        let result = self.act_on(&words);
        if !admin {
            kapi::set_admin(true).unwrap_or_else(|errno| panic!("capset: {errno}"));
        }
        self.kept.clear();
        result
    }

    /// Closes all openings.
    pub fn close_all(&mut self) {
        self.openers.clear();
    }

    /// Lets both devices go that are bound and not open; what came of it.
    pub fn unbind_all(&mut self) -> String {
        let mut left = String::from("ok");
        // Y may be bound to X.
        for (device, _) in NUMBERS.iter().rev() {
            let loop_dir = Path::new("/sys/block").join(name_of(device)).join("loop");
            if !loop_dir.exists() {
                continue;
            }
            let cleared = open(&node(device), "r")
                .and_then(|file| kapi::ioctl_value(file.as_raw_fd(), LOOP_CLR_FD, 0));
            left.push_str(&format!(" {device}={}", show(cleared)));
        }
        left
    }

    /// New devices in place of both, which are let go of; what was not as usual.
    pub fn renew(&mut self) -> String {
        let mut result = String::new();
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
        self.close_all();
        self.unbind_all();
        for (_, number) in NUMBERS {
            _ = self.control(LOOP_CTL_REMOVE, &number.to_string());
        }
    }

    fn act_on(&mut self, words: &[&str]) -> String {
        let [verb, rest @ ..] = words else {
            return String::new();
        };
        match (*verb, rest) {
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
                let path = self.places.memory.join("node");
                _ = fs::remove_file(&path);
                let made = kapi::make_block_node(&path.to_string_lossy(), 7, number(minor) as u32);
                show(made.and_then(|()| open(&path, "r")).map(|_| "ok"))
            }
            ("truncate", [backing, size]) => {
                let file = open(&self.places.path_of(backing), "rw");
                show(
                    file.and_then(|f| Ok(f.set_len(number(size))?))
                        .map(|()| "ok"),
                )
            }
            ("unlink", [backing]) => show(
                fs::remove_file(self.places.path_of(backing))
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

    /// Opens what a device may be bound to, and calls `f` with the descriptor. Its name is that of
    /// [`Places::path_of`], and the mode after a colon.
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
            _ => open(&self.places.path_of(name), mode),
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
        std::env::set_current_dir(&self.places.work)?;
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
            // Bound by the other process.
            return "dev ino rdev unknown".to_owned();
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
