// SPDX-License-Identifier: GPL-2.0

//! Operations on an open file that the kernel crate's `File` lacks.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/statfs.h`](srctree/include/linux/statfs.h),
//! [`include/linux/falloc.h`](srctree/include/linux/falloc.h)
//!
//! All methods but the plain field reads may sleep and enter the file system: process context, no
//! queue of a block device that serves the file frozen.

use super::{bdev::BlockDevice, bindings};
use core::{
    mem::MaybeUninit,
    ptr::{self, NonNull},
};
use kernel::{
    error::{from_err_ptr, to_result},
    fs::{File, LocalFile},
    prelude::*,
    sync::aref::ARef,
};

/// What `stat(2)` of the file says, as far as asked for.
pub(crate) struct Stat {
    /// Device of the file system, in the encoding of `struct loop_info64` (`huge_encode_dev()`).
    pub(crate) dev: u64,
    /// Device that a device node stands for, in the same encoding.
    pub(crate) rdev: u64,
    /// Inode number.
    pub(crate) ino: u64,
}

/// Alignments in bytes that direct I/O on the file wants; from `STATX_DIOALIGN`.
#[derive(Clone, Copy)]
pub(crate) struct DioAlign {
    /// Of the offset and length.
    pub(crate) offset: u32,
    /// Of the memory; 0 if the file takes no direct I/O.
    pub(crate) memory: u32,
}

/// How the range of [`FileExt::fallocate`] is changed; the size never is.
#[derive(Clone, Copy)]
pub(crate) enum Fallocate {
    /// Gives the space back; reads as zeroes.
    PunchHole,
    /// Keeps the space allocated; reads as zeroes.
    ZeroRange,
}

/// See the module's documentation.
pub(crate) trait FileExt {
    /// The file behind descriptor `fd` of the current process. `EBADF` if there is none.
    fn from_fd(fd: i32) -> Result<ARef<File>>;
    /// Opened for writing.
    fn is_writable(&self) -> bool;
    /// Opened with `O_DIRECT`.
    fn is_direct(&self) -> bool;
    /// Takes direct I/O.
    fn can_direct(&self) -> bool;
    /// Honours `IOCB_NOWAIT`.
    fn can_nowait(&self) -> bool;
    /// A buffered read can leave a callback with a page, rather than wait for it
    /// (`FOP_BUFFER_RASYNC`).
    fn can_park_reads(&self) -> bool;
    /// Has a `read_iter` operation.
    fn has_read_iter(&self) -> bool;
    /// Has a `write_iter` operation.
    fn has_write_iter(&self) -> bool;
    /// Has a `fallocate` operation.
    fn has_fallocate(&self) -> bool;
    /// Has an `fsync` operation.
    fn has_fsync(&self) -> bool;
    /// A regular file.
    fn is_regular(&self) -> bool;
    /// The block device that the file is the node of.
    fn block_device(&self) -> Option<BlockDevice<'_>>;
    /// The block device below the file's file system.
    fn filesystem_device(&self) -> Option<BlockDevice<'_>>;
    /// The name of the file system type that the file (or the device node) lies on.
    fn filesystem_name(&self) -> &CStr;
    /// Size in bytes; asks the file system, as the cached one may be stale on network ones.
    fn size(&self) -> Result<u64>;
    /// `stat(2)` as the caller's credentials and the security modules allow.
    fn stat(&self) -> Result<Stat>;
    /// Direct I/O alignments, if the file system tells.
    fn dio_align(&self) -> Option<DioAlign>;
    /// The preferred block size in bytes that `statfs(2)` reports (`f_bsize`).
    fn statfs_block_size(&self) -> Option<u32>;
    /// Writes back the file's data and metadata.
    fn fsync(&self) -> Result;
    /// Brings the times of modification and of change up to date, as a WRITE does first. Sleeps, for a
    /// transaction of the file system. The caller has its freeze protection.
    fn update_times(&self) -> Result;
    /// Writes back what its page cache holds. An error is still one for the next `fsync()`.
    fn write_back(&self) -> Result;
    /// Has the file system make now what it makes for its first asynchronous direct I/O.
    fn prepare_direct(&self) -> Result;
    /// Drops clean page cache of the file; `EBUSY` if some could not be dropped.
    fn invalidate_page_cache(&self) -> Result;
    /// Changes the space of `len` bytes at `pos`, keeping the size.
    fn fallocate(&self, how: Fallocate, pos: u64, len: u64) -> Result;
    /// Opens the same file anew for reading, without updates of the access time.
    fn reopen_noatime(&self) -> Result<ARef<File>>;
    /// Writes the path as seen from the current root to the beginning of `buf`, with " (deleted)"
    /// behind that of an unlinked file, and returns its length in bytes. Does not sleep.
    /// `ENAMETOOLONG`.
    fn path(&self, buf: &mut [u8]) -> Result<usize>;
}

/// The mapping of `file`, never null for an open file.
pub(super) fn mapping(file: &File) -> *mut bindings::address_space {
    // SAFETY: `f_mapping` of an open file is set once at open.
    unsafe { (*file.as_ptr()).f_mapping }
}

/// The inode that holds the data: that of the block device for a device node.
fn host(file: &File) -> *mut bindings::inode {
    // SAFETY: The mapping of an open file lives as long as the file.
    unsafe { (*mapping(file)).host }
}

/// The inode of the path that was opened.
pub(super) fn inode(file: &File) -> *mut bindings::inode {
    // SAFETY: `file` is valid.
    unsafe { bindings::kapi_file_inode(file.as_ptr()) }
}

/// Whether the inode is of the given `S_IF*` type.
fn is_type(inode: *mut bindings::inode, kind: u32) -> bool {
    // SAFETY: All callers pass the inode of an open file.
    u32::from(unsafe { (*inode).i_mode }) & bindings::S_IFMT == kind
}

fn operations(file: &File) -> *const bindings::file_operations {
    // SAFETY: `f_op` of an open file is set once at open.
    unsafe { (*file.as_ptr()).f_op }
}

fn mode(file: &File) -> bindings::fmode_t {
    // SAFETY: The bits asked for below are set at open and do not change.
    unsafe { (*file.as_ptr()).f_mode }
}

fn getattr(file: &File, mask: u32) -> Result<bindings::kstat> {
    let mut stat = MaybeUninit::<bindings::kstat>::zeroed();
    // SAFETY: The path of an open file is valid; the result is written to `stat`.
    to_result(unsafe {
        bindings::vfs_getattr(
            &raw const (*file.as_ptr()).__bindgen_anon_1.f_path,
            stat.as_mut_ptr(),
            mask,
            bindings::AT_STATX_SYNC_AS_STAT,
        )
    })?;
    // SAFETY: Plain integers, zeroed and then filled in.
    Ok(unsafe { stat.assume_init() })
}

impl FileExt for File {
    fn from_fd(fd: i32) -> Result<ARef<File>> {
        let file = LocalFile::fget(u32::try_from(fd).map_err(|_| EBADF)?)?;
        // SAFETY: No `fdget_pos()` section is active: an ioctl holds none, and this is called
        // nowhere else.
        Ok(unsafe { LocalFile::assume_no_fdget_pos(file) })
    }

    fn is_writable(&self) -> bool {
        mode(self) & bindings::FMODE_WRITE != 0
    }

    fn is_direct(&self) -> bool {
        self.flags() & bindings::O_DIRECT != 0
    }

    fn can_direct(&self) -> bool {
        mode(self) & bindings::FMODE_CAN_ODIRECT != 0
    }

    fn can_nowait(&self) -> bool {
        mode(self) & bindings::FMODE_NOWAIT != 0
    }

    fn can_park_reads(&self) -> bool {
        // SAFETY: The operations of an open file are valid.
        unsafe { (*operations(self)).fop_flags & bindings::FOP_BUFFER_RASYNC != 0 }
    }

    fn has_read_iter(&self) -> bool {
        // SAFETY: The operations of an open file are valid.
        unsafe { (*operations(self)).read_iter.is_some() }
    }

    fn has_write_iter(&self) -> bool {
        // SAFETY: As above.
        unsafe { (*operations(self)).write_iter.is_some() }
    }

    fn has_fallocate(&self) -> bool {
        // SAFETY: As above.
        unsafe { (*operations(self)).fallocate.is_some() }
    }

    fn has_fsync(&self) -> bool {
        // SAFETY: As above.
        unsafe { (*operations(self)).fsync.is_some() }
    }

    fn is_regular(&self) -> bool {
        is_type(host(self), bindings::S_IFREG)
    }

    fn block_device(&self) -> Option<BlockDevice<'_>> {
        let inode = host(self);
        if !is_type(inode, bindings::S_IFBLK) {
            return None;
        }
        // SAFETY: The host inode of an open block device's mapping is that of the bdev file
        // system, for which `I_BDEV()` is meant. The open file keeps the device.
        unsafe {
            Some(BlockDevice::from_raw(NonNull::new(bindings::I_BDEV(
                inode,
            ))?))
        }
    }

    fn filesystem_device(&self) -> Option<BlockDevice<'_>> {
        // SAFETY: An open file keeps its super block, and that its device.
        unsafe {
            let bdev = (*(*host(self)).i_sb).s_bdev;
            Some(BlockDevice::from_raw(NonNull::new(bdev)?))
        }
    }

    fn filesystem_name(&self) -> &CStr {
        // SAFETY: An open file keeps its super block and the type of that, whose name is a
        // NUL-terminated string.
        unsafe { CStr::from_char_ptr((*(*(*inode(self)).i_sb).s_type).name) }
    }

    fn size(&self) -> Result<u64> {
        if self.block_device().is_some() {
            // SAFETY: The inode of an open file.
            return Ok(unsafe { bindings::kapi_i_size_read(host(self)) });
        }
        let mut stat = MaybeUninit::<bindings::kstat>::zeroed();
        // SAFETY: The path of an open file is valid; the result is written to `stat`.
        to_result(unsafe {
            bindings::vfs_getattr_nosec(
                &raw const (*self.as_ptr()).__bindgen_anon_1.f_path,
                stat.as_mut_ptr(),
                bindings::STATX_SIZE,
                bindings::AT_STATX_SYNC_AS_STAT,
            )
        })?;
        // SAFETY: Plain integers, zeroed and then filled in.
        let size = unsafe { stat.assume_init() }.size;
        u64::try_from(size).map_err(|_| EOVERFLOW)
    }

    fn stat(&self) -> Result<Stat> {
        let stat = getattr(self, bindings::STATX_INO)?;
        // SAFETY: Pure functions of their argument.
        let (dev, rdev) = unsafe {
            (
                bindings::kapi_huge_encode_dev(stat.dev),
                bindings::kapi_huge_encode_dev(stat.rdev),
            )
        };
        Ok(Stat {
            dev,
            rdev,
            ino: stat.ino,
        })
    }

    fn dio_align(&self) -> Option<DioAlign> {
        let stat = getattr(self, bindings::STATX_DIOALIGN).ok()?;
        (stat.result_mask & bindings::STATX_DIOALIGN != 0).then_some(DioAlign {
            offset: stat.dio_offset_align,
            memory: stat.dio_mem_align,
        })
    }

    fn statfs_block_size(&self) -> Option<u32> {
        let mut stat = MaybeUninit::<bindings::kstatfs>::zeroed();
        // SAFETY: The path of an open file is valid; the result is written to `stat`, which is a
        // `struct kstatfs` (the bindings crate only declares that one).
        let ret = unsafe {
            bindings::vfs_statfs(
                &raw const (*self.as_ptr()).__bindgen_anon_1.f_path,
                stat.as_mut_ptr().cast(),
            )
        };
        to_result(ret).ok()?;
        // SAFETY: Plain integers, zeroed and then filled in.
        u32::try_from(unsafe { stat.assume_init() }.f_bsize).ok()
    }

    fn fsync(&self) -> Result {
        // SAFETY: `self` is a valid file.
        to_result(unsafe { bindings::vfs_fsync(self.as_ptr(), 0) })
    }

    fn update_times(&self) -> Result {
        // SAFETY: `self` is a valid file. Takes no lock of the VFS, as in a page fault.
        to_result(unsafe { bindings::file_update_time(self.as_ptr()) })
    }

    fn write_back(&self) -> Result {
        // SAFETY: The mapping of an open file is valid. Sleeps; leaves the file's own record of
        // errors alone.
        to_result(unsafe {
            bindings::filemap_write_and_wait_range(mapping(self), 0, bindings::loff_t::MAX)
        })
    }

    fn prepare_direct(&self) -> Result {
        // SAFETY: The super block of an open file is valid. The function sleeps and allocates; it
        // settles with others that come to it at once. The pointer is only ever set.
        unsafe {
            let sb = (*host(self)).i_sb;
            if !ptr::read_volatile(&raw const (*sb).s_dio_done_wq).is_null() {
                return Ok(());
            }
            to_result(bindings::sb_init_dio_done_wq(sb))
        }
    }

    fn invalidate_page_cache(&self) -> Result {
        // SAFETY: The mapping of an open file is valid.
        to_result(unsafe { bindings::invalidate_inode_pages2(mapping(self)) })
    }

    fn fallocate(&self, how: Fallocate, pos: u64, len: u64) -> Result {
        let mode = bindings::FALLOC_FL_KEEP_SIZE
            | match how {
                Fallocate::PunchHole => bindings::FALLOC_FL_PUNCH_HOLE,
                Fallocate::ZeroRange => bindings::FALLOC_FL_ZERO_RANGE,
            };
        let mode = i32::try_from(mode).map_err(|_| EINVAL)?;
        let pos = i64::try_from(pos).map_err(|_| EFBIG)?;
        let len = i64::try_from(len).map_err(|_| EFBIG)?;
        // SAFETY: `self` is a valid file. Takes the file system's freeze protection itself.
        to_result(unsafe { bindings::vfs_fallocate(self.as_ptr(), mode, pos, len) })
    }

    fn reopen_noatime(&self) -> Result<ARef<File>> {
        let flags = bindings::O_RDONLY | bindings::O_LARGEFILE | bindings::O_NOATIME;
        let flags = i32::try_from(flags).map_err(|_| EINVAL)?;
        // SAFETY: The path of an open file and its credentials are valid; `dentry_open()` takes
        // references of its own.
        let file = from_err_ptr(unsafe {
            bindings::dentry_open(
                &raw const (*self.as_ptr()).__bindgen_anon_1.f_path,
                flags,
                (*self.as_ptr()).f_cred,
            )
        })?;
        let file = NonNull::new(file).ok_or(ENOMEM)?;
        // SAFETY: `dentry_open()` returned a reference, which is passed on; `struct file` and
        // `File` have the same layout. The file is in no descriptor table.
        Ok(unsafe { ARef::from_raw(file.cast::<File>()) })
    }

    fn path(&self, buf: &mut [u8]) -> Result<usize> {
        let size = i32::try_from(buf.len()).map_err(|_| EINVAL)?;
        // SAFETY: `buf` is valid for `size` bytes; the function writes the string and its NUL at
        // the end of it, and returns where it begins.
        let start = from_err_ptr(unsafe {
            bindings::file_path(self.as_ptr(), buf.as_mut_ptr().cast(), size)
        })?;
        let start = start.addr() - buf.as_ptr().addr();
        let len = buf.len().saturating_sub(start + 1);
        buf.copy_within(start..start + len, 0);
        Ok(len)
    }
}
