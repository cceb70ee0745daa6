// SPDX-License-Identifier: GPL-2.0

//! The system calls that the standard library lacks. All `unsafe` of this program is here.

use std::{
    ffi::CString,
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// A type that is plain data: integers, arrays of them, and pointers that are not followed here.
/// All zeroes is a value.
pub trait Plain: Copy {}

impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for usize {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// All zeroes, gaps included.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain`.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// `errno` values by name.
pub struct Errno(pub i32);

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EINTR => "EINTR",
            libc::EIO => "EIO",
            libc::ENXIO => "ENXIO",
            libc::EBADF => "EBADF",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EFAULT => "EFAULT",
            libc::EBUSY => "EBUSY",
            libc::EEXIST => "EEXIST",
            libc::ENODEV => "ENODEV",
            libc::EINVAL => "EINVAL",
            libc::ENOTTY => "ENOTTY",
            libc::EFBIG => "EFBIG",
            libc::ENOSPC => "ENOSPC",
            libc::EROFS => "EROFS",
            libc::ERANGE => "ERANGE",
            libc::ENAMETOOLONG => "ENAMETOOLONG",
            libc::ENOSYS => "ENOSYS",
            libc::ENOMEDIUM => "ENOMEDIUM",
            libc::EOVERFLOW => "EOVERFLOW",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            other => return write!(f, "errno{other}"),
        };
        f.write_str(name)
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}

/// What a system call gave.
pub type Result<T> = std::result::Result<T, Errno>;

fn check(ret: libc::c_int) -> Result<i32> {
    if ret < 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(ret)
}

/// An ioctl whose argument is a number, or an address at which nothing of this program lies.
pub fn ioctl_value(fd: RawFd, cmd: u32, arg: usize) -> Result<i32> {
    // SAFETY: The caller passes no address of live memory: the kernel can do no more than fail.
    check(unsafe { libc::ioctl(fd, cmd as _, arg) })
}

/// An ioctl that reads a structure, or writes it.
pub fn ioctl_struct<T: Plain>(fd: RawFd, cmd: u32, arg: &mut T) -> Result<i32> {
    // SAFETY: `arg` lives for the call, and any bytes are a value of it.
    check(unsafe { libc::ioctl(fd, cmd as _, std::ptr::from_mut(arg)) })
}

/// Two pages: the first as `prot` says, the second with no access.
pub struct Pages {
    address: usize,
    size: usize,
}

impl Pages {
    /// Maps them.
    pub fn new(writable: bool) -> Self {
        // SAFETY: A plain query.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * size,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let prot = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: The first page of the mapping just made, which nothing refers to.
        assert_eq!(unsafe { libc::mprotect(base, size, prot) }, 0);
        Self {
            address: base as usize,
            size,
        }
    }

    /// Address of the first byte.
    pub fn start(&self) -> usize {
        self.address
    }

    /// Address of the last `bytes` that can be accessed.
    pub fn before_end(&self, bytes: usize) -> usize {
        self.address + self.size - bytes
    }
}

/// Sets whether CAP_SYS_ADMIN is effective. It stays permitted.
pub fn set_admin(effective: bool) -> Result<()> {
    const CAP_SYS_ADMIN: u32 = 21;
    const VERSION_3: u32 = 0x2008_0522;
    let mut head = [VERSION_3, 0u32];
    // Effective, permitted, inheritable; low words, then high ones.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: The layouts of `struct __user_cap_header_struct` and of two `__user_cap_data_struct`.
    check(unsafe { libc::syscall(libc::SYS_capget, &mut head, &mut sets) } as i32)?;
    let bit = 1 << CAP_SYS_ADMIN;
    sets[0][0] = if effective {
        sets[0][0] | bit
    } else {
        sets[0][0] & !bit
    };
    // SAFETY: As above.
    check(unsafe { libc::syscall(libc::SYS_capset, &mut head, &sets) } as i32).map(|_| ())
}

/// A socket for the kernel's uevents that does not block.
pub fn uevent_socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: No pointer is passed.
    let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT) })?;
    // SAFETY: A descriptor just made, owned by no one else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let size: i32 = 16 << 20;
    // SAFETY: `size` is an `int`, as SO_RCVBUFFORCE wants.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            std::ptr::from_ref(&size).cast(),
            size_of_val(&size) as u32,
        )
    })?;
    // SAFETY: `sockaddr_nl` is plain data.
    let mut address: libc::sockaddr_nl = unsafe { MaybeUninit::zeroed().assume_init() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = 1;
    // SAFETY: `address` is a `sockaddr_nl` of that size.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of_val(&address) as u32,
        )
    })?;
    Ok(fd)
}

/// Receives one datagram; the number of bytes.
pub fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: `buffer` is that long.
    let len = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error().into())
}

/// Makes the node of a block device.
pub fn make_block_node(path: &str, major: u32, minor: u32) -> Result<()> {
    let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    let device = libc::makedev(major, minor);
    // SAFETY: `path` is terminated.
    check(unsafe { libc::mknod(path.as_ptr(), libc::S_IFBLK | 0o600, device) }).map(|_| ())
}

/// A file in memory that has no name.
pub fn memory_file() -> Result<File> {
    // SAFETY: The name is terminated.
    let fd = check(unsafe { libc::memfd_create(c"abi".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: A descriptor just made, owned by no one else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The reading end of a pipe, and the other one.
pub fn pipe() -> Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: An array of two.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: Descriptors just made, owned by no one else.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}
