// SPDX-License-Identifier: GPL-2.0

//! Handing the data of a request to a file.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/uio.h`](srctree/include/linux/uio.h),
//! [`include/linux/bvec.h`](srctree/include/linux/bvec.h)

use super::{
    bindings,
    blk_mq::{Driver, Operation, Pdu, Request},
    file,
};
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{
    alloc::flags::{GFP_NOWAIT, __GFP_NOWARN},
    ffi,
    fs::File,
    prelude::*,
    types::Opaque,
};

/// The call into the file has not returned yet.
const SUBMITTING: u32 = 0;
/// The call has returned `EIOCBQUEUED` first: the completion owns the request.
const RETURNED: u32 = 1;
/// The completion came first: the returning call owns the request.
const COMPLETED: u32 = 2;

/// The part of a request's private data that describes its transfer from or to a file.
#[pin_data]
pub(super) struct IoSlot {
    #[pin]
    kiocb: Opaque<bindings::kiocb>,
    /// Who of call and completion comes second, and so owns the request: SUBMITTING is left by
    /// one exchange of each. A file may touch the `kiocb` until the call has returned, even when
    /// the completion has run, so that the request must not end before both.
    handoff: AtomicU32,
    /// What the completion said.
    ret: UnsafeCell<isize>,
    /// The segments of all bios of the request, if there is more than one bio.
    segments: UnsafeCell<Option<KVec<bindings::bio_vec>>>,
    /// The super block whose freeze protection the request holds, or null.
    write_access: UnsafeCell<*mut bindings::super_block>,
    /// Where a buffered READ waits for a page, see [`IoMode::parked`].
    #[pin]
    page_wait: Opaque<bindings::wait_page_queue>,
}

impl IoSlot {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            kiocb <- Opaque::ffi_init(|slot: *mut bindings::kiocb| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(pin_init::zeroed()) }
            }),
            handoff: AtomicU32::new(SUBMITTING),
            ret: UnsafeCell::new(0),
            segments: UnsafeCell::new(None),
            write_access: UnsafeCell::new(ptr::null_mut()),
            page_wait <- Opaque::ffi_init(|slot: *mut bindings::wait_page_queue| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(pin_init::zeroed()) }
            }),
        })
    }

    /// Gives back what the request holds, before it ends. Any context. The request is owned by
    /// the caller, and no file has it.
    pub(super) fn release(&self) {
        // SAFETY: The owner of the request is the only one to touch this field.
        drop(unsafe { (*self.segments.get()).take() });
        self.end_write();
    }

    /// Gives the freeze protection back, if the request has it. Any context; the same rule.
    pub(super) fn end_write(&self) {
        // SAFETY: The owner of the request is the only one to touch this field.
        unsafe {
            let sb = ptr::replace(self.write_access.get(), ptr::null_mut());
            if !sb.is_null() {
                // Lockdep was told at the start that the lock is no task's.
                bindings::kapi_sb_writers_acquired(sb);
                bindings::kapi_sb_end_write(sb);
            }
        }
    }
}

/// How [`DataRequest::submit`] calls the file.
#[derive(Clone, Copy)]
pub(crate) struct IoMode {
    /// Past the page cache, completed whenever it is (`IOCB_DIRECT`); else through it, completed
    /// when the call returns.
    pub(crate) direct: bool,
    /// Completed when the call returns, even if direct. What the file system does at the end, as
    /// marking extents written, it then does in the calling task, and not in a worker of its own.
    pub(crate) sync: bool,
    /// Fails with `EAGAIN` rather than sleep (`IOCB_NOWAIT`).
    pub(crate) nowait: bool,
    /// Fails with `EAGAIN` rather than read what is not cached (`IOCB_NOIO`).
    pub(crate) cached_only: bool,
    /// Leaves the request with the page, rather than wait for one that is being read into the page
    /// cache: [`Driver::page_read`] gets it then, with nothing transferred yet (`IOCB_WAITQ`). May
    /// still sleep for anything else. Fails with `EAGAIN` if the page cannot be had in this way, or
    /// is there by now. For buffered READs of a file with [`file::FileExt::can_park_reads`] only.
    pub(crate) parked: bool,
}

/// What became of a submission.
pub(crate) enum Submitted<D: Driver> {
    /// The transfer has ended with this number of bytes or this error; the request is back.
    Done(DataRequest<D>, Result<u32>),
    /// The file has the request, and gives it to [`Driver::io_done`] or [`Driver::page_read`].
    Queued,
}

/// A READ or WRITE whose memory is described for a file.
///
/// # Invariants
///
/// The operation is READ or WRITE, and there is I/O state.
#[must_use]
pub(crate) struct DataRequest<D: Driver>(Request<D>);

impl<D: Driver> Deref for DataRequest<D> {
    type Target = Request<D>;

    fn deref(&self) -> &Request<D> {
        &self.0
    }
}

impl<D: Driver> DerefMut for DataRequest<D> {
    fn deref_mut(&mut self) -> &mut Request<D> {
        &mut self.0
    }
}

/// Iterates over the segments of all bios from `bio` on.
///
/// # Safety
///
/// `bio` is null or the first of a list of bios that nothing else changes while this iterates.
unsafe fn for_each_segment(mut bio: *const bindings::bio, mut f: impl FnMut(bindings::bio_vec)) {
    while !bio.is_null() {
        // SAFETY: By the safety requirement.
        unsafe {
            for_each_segment_of_one(bio, &mut f);
            bio = (*bio).bi_next;
        }
    }
}

/// Iterates over the segments of one bio.
///
/// # Safety
///
/// Nothing else changes `bio` while this iterates.
unsafe fn for_each_segment_of_one(bio: *const bindings::bio, mut f: impl FnMut(bindings::bio_vec)) {
    // SAFETY: By the safety requirement; `bi_iter` lies within `bi_io_vec`.
    unsafe {
        let iter = (*bio).bi_iter;
        let mut left = iter.bi_size;
        let mut offset = iter.bi_offset;
        let mut vec = (*bio).bi_io_vec.add(iter.bi_idx as usize).cast_const();
        while left > 0 {
            let len = left.min((*vec).bv_len - offset);
            f(bindings::bio_vec {
                bv_page: (*vec).bv_page,
                bv_len: len,
                bv_offset: (*vec).bv_offset + offset,
            });
            left -= len;
            offset = 0;
            vec = vec.add(1);
        }
    }
}

/// The bio of a list that has byte `skip` of all, and the number of that byte in it.
///
/// # Safety
///
/// `bio` is the first of a list of bios that nothing else changes meanwhile.
unsafe fn bio_with_byte(
    mut bio: *const bindings::bio,
    mut skip: u32,
) -> (*const bindings::bio, u32) {
    // SAFETY: By the safety requirement.
    unsafe {
        while skip >= (*bio).bi_iter.bi_size && !(*bio).bi_next.is_null() {
            skip -= (*bio).bi_iter.bi_size;
            bio = (*bio).bi_next;
        }
    }
    (bio, skip)
}

impl<D: Driver> Request<D> {
    /// Describes the memory of a READ or WRITE. Gives the request back if it is not one of the
    /// two, or the driver has no I/O state.
    ///
    /// Any context. Takes memory, without waiting for it, if there is more than one bio. If there is
    /// none, [`DataRequest::is_in_parts`]. Calling it again on the same request asks again then, and
    /// costs nothing otherwise.
    pub(crate) fn describe_data(self) -> Result<DataRequest<D>, Self> {
        if !matches!(self.operation(), Operation::Read | Operation::Write) || self.io().is_none() {
            return Err(self);
        }
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        // SAFETY: The request is owned by `self`; its bios belong to it.
        let (bio, tail) = unsafe { ((*self.as_ptr()).bio, (*self.as_ptr()).biotail) };
        // SAFETY: As above.
        let segments = unsafe { &mut *self.slot().segments.get() };
        if bio != tail && segments.is_none() {
            let mut count = 0;
            // SAFETY: As above.
            unsafe { for_each_segment(bio, |_| count += 1) };
            if let Ok(mut vec) = KVec::with_capacity(count, flags) {
                // SAFETY: As above. There is capacity for all, so that `push` does not allocate.
                unsafe {
                    for_each_segment(bio, |segment| {
                        let _ = vec.push(segment, flags);
                    })
                };
                *segments = Some(vec);
            }
        }
        // INVARIANT: As checked and done above.
        Ok(DataRequest(self))
    }
}

impl<D: Driver> DataRequest<D> {
    /// There was no memory to describe all of several bios: each call transfers from one of them.
    pub(crate) fn is_in_parts(&self) -> bool {
        // SAFETY: The request is owned by `self`; its bios belong to it.
        let several = unsafe { (*self.as_ptr()).bio != (*self.as_ptr()).biotail };
        // SAFETY: As above.
        several && unsafe { (*self.slot().segments.get()).is_none() }
    }

    /// Takes the freeze protection of the file system of the file that `pick` chooses, unless the
    /// request has it; it is given back when the request ends or is enqueued. With `wait`, sleeps
    /// until a frozen file system is thawed; without, returns false if it is frozen.
    pub(crate) fn start_write(&mut self, pick: impl FnOnce(&D::Io) -> &File, wait: bool) -> bool {
        let slot = self.slot();
        // SAFETY: The request is owned by `self`.
        let held = unsafe { *slot.write_access.get() };
        let Some(io) = self.io() else {
            return false;
        };
        if !held.is_null() {
            return true;
        }
        // SAFETY: The file is part of the I/O state, which stays while the request exists, and
        // with it the super block.
        unsafe {
            let sb = (*file::inode(pick(io))).i_sb;
            if wait {
                bindings::kapi_sb_start_write(sb);
            } else if !bindings::kapi_sb_start_write_trylock(sb) {
                return false;
            }
            // The protection is given back by whoever ends the request; tell lockdep that no task
            // holds it, as `kiocb_start_write()` does.
            bindings::kapi_sb_writers_release(sb);
            *slot.write_access.get() = sb;
        }
        true
    }

    /// Calls the file that `pick` chooses for the bytes from `skip` of the request on, at byte
    /// `pos + skip` of the file: all of them, or those of one bio if
    /// [`DataRequest::is_in_parts`].
    ///
    /// Process context; sleeps unless `mode.nowait`. The file must have the operation, and be of a
    /// kind that the current task may enter. A WRITE must have its [`DataRequest::start_write`].
    pub(crate) fn submit(
        self,
        pick: impl FnOnce(&D::Io) -> &File,
        pos: u64,
        skip: u32,
        mode: IoMode,
    ) -> Submitted<D> {
        let write = self.operation() == Operation::Write;
        let (Some(io), Some(pos)) = (
            self.io(),
            pos.checked_add(skip.into())
                .and_then(|pos| i64::try_from(pos).ok()),
        ) else {
            return Submitted::Done(self, Err(EIO));
        };
        let file = pick(io).as_ptr();
        let slot = self.slot();
        let kiocb = slot.kiocb.get();
        let mut iter = MaybeUninit::<bindings::iov_iter>::uninit();

        let mut flags = 0;
        for (on, flag) in [
            (mode.direct, bindings::IOCB_DIRECT),
            (mode.nowait, bindings::IOCB_NOWAIT),
            (mode.cached_only, bindings::IOCB_NOIO),
            (mode.parked, bindings::IOCB_WAITQ),
        ] {
            if on {
                flags |= flag;
            }
        }

        // SAFETY: The request is owned by `self`, so that bios, segments and `kiocb` are this
        // function's to read and write. The segments live in the request or in `slot`, at least
        // until it ends; the file as long as the I/O state.
        unsafe {
            let direction = if write {
                bindings::ITER_SOURCE
            } else {
                bindings::ITER_DEST
            };
            let mut skip = skip;
            if let Some(segments) = &*slot.segments.get() {
                bindings::iov_iter_bvec(
                    iter.as_mut_ptr(),
                    direction,
                    segments.as_ptr(),
                    segments.len() as ffi::c_ulong,
                    self.bytes() as usize,
                );
            } else {
                let bio;
                (bio, skip) = bio_with_byte((*self.as_ptr()).bio, skip);
                let bio_iter = (*bio).bi_iter;
                let mut count = 0;
                for_each_segment_of_one(bio, |_| count += 1);
                bindings::iov_iter_bvec(
                    iter.as_mut_ptr(),
                    direction,
                    (*bio).bi_io_vec.add(bio_iter.bi_idx as usize),
                    count,
                    bio_iter.bi_size as usize,
                );
                (*iter.as_mut_ptr()).iov_offset = bio_iter.bi_offset as usize;
            }
            if skip > 0 {
                bindings::iov_iter_advance(iter.as_mut_ptr(), skip as usize);
            }

            kiocb.write(pin_init::zeroed());
            (*kiocb).ki_filp = file;
            (*kiocb).ki_pos = pos;
            (*kiocb).ki_flags = flags;
            (*kiocb).ki_ioprio = self.ioprio();
            if mode.direct && !mode.sync {
                (*kiocb).ki_complete = Some(complete_callback::<D>);
            }
            if mode.parked {
                let wait = slot.page_wait.get();
                wait.write(pin_init::zeroed());
                (*wait).wait.func = Some(page_read_callback::<D>);
                (*kiocb).ki_waitq = wait;
            }
        }
        // Ordered before the file's use of the `kiocb` by whatever makes that visible to the
        // completion.
        if !cfg!(without_handoff) {
            slot.handoff.store(SUBMITTING, Ordering::Relaxed);
        }

        // SAFETY: `kiocb` and `iter` are set up. `FileExt::has_read_iter` and `has_write_iter`
        // were asked when the file was taken on.
        let ret = unsafe {
            let operations = (*file).f_op;
            let operation = if write {
                (*operations).write_iter
            } else {
                (*operations).read_iter
            };
            match operation {
                Some(operation) => operation(kiocb, iter.as_mut_ptr()),
                None => return Submitted::Done(self, Err(EINVAL)),
            }
        };

        if ret == -(bindings::EIOCBQUEUED as isize) {
            // Release: everything done to the `kiocb` in the call comes before a completion that
            // ends the request. Acquire: with COMPLETED, its `ret` is visible. Pairs with the
            // exchange in `complete_callback`.
            if slot.handoff.swap(RETURNED, Ordering::AcqRel) == SUBMITTING {
                let _ = self.0.into_raw();
                return Submitted::Queued;
            }
            // SAFETY: The completion has stored it before its exchange, and left the request here.
            let ret = unsafe { *slot.ret.get() };
            if cfg!(without_late_again) {
                // As if it had come after the return, which is handled like this one otherwise.
                D::io_done(self, to_bytes(ret));
                return Submitted::Queued;
            }
            return Submitted::Done(self, to_bytes(ret));
        }
        Submitted::Done(self, to_bytes(ret))
    }

    /// The request itself.
    pub(crate) fn into_request(self) -> Request<D> {
        self.0
    }
}

/// A byte count or negative errno as a result. A request is shorter than 4 GiB.
fn to_bytes(ret: isize) -> Result<u32> {
    match u32::try_from(ret) {
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(i32::try_from(ret).map_or(EIO, Error::from_errno)),
    }
}

/// # Safety
///
/// Called by the file system once for a `kiocb` that [`DataRequest::submit`] set up and that it
/// answered, or will answer, with `EIOCBQUEUED`.
unsafe extern "C" fn complete_callback<D: Driver>(kiocb: *mut bindings::kiocb, ret: ffi::c_long) {
    // SAFETY: The `kiocb` is the field of an `IoSlot` of a `Pdu<D>`, which lies behind its request.
    let (slot, rq) = unsafe {
        // CAST: `Opaque` is transparent.
        let kiocb = kiocb.cast::<Opaque<bindings::kiocb>>();
        let slot = kernel::container_of!(kiocb, IoSlot, kiocb);
        let pdu = kernel::container_of!(slot, Pdu<D>, io);
        (slot, bindings::blk_mq_rq_from_pdu(pdu.cast()))
    };
    // SAFETY: Until the exchange, the completion may write `ret`; after it, only the owner of the
    // request touches the slot. Release and acquire pair with the exchange in `submit`.
    let before = unsafe {
        *(*slot).ret.get() = ret;
        (*slot).handoff.swap(COMPLETED, Ordering::AcqRel)
    };
    if before == RETURNED {
        // SAFETY: The call has returned and given up the request, so that it is owned here.
        // INVARIANT: It was a `DataRequest` then.
        let rq = DataRequest(unsafe { Request::from_raw(NonNull::new_unchecked(rq)) });
        D::io_done(rq, to_bytes(ret));
    }
}

/// # Safety
///
/// Called by whoever unlocks a page, with the lock of the page's wait queue held and interrupts off,
/// for an entry of that queue that a call of [`DataRequest::submit`] has put there and has answered,
/// or will answer, with `EIOCBQUEUED`.
unsafe extern "C" fn page_read_callback<D: Driver>(
    entry: *mut bindings::wait_queue_entry,
    _mode: ffi::c_uint,
    _flags: ffi::c_int,
    key: *mut ffi::c_void,
) -> ffi::c_int {
    // SAFETY: The entry is that of the `wait_page_queue` of an `IoSlot` of a `Pdu<D>`, which lies
    // behind its request; the key is that of a page. The queue is locked, so that the entry may be
    // taken off, once: this is not called for it again.
    let (slot, rq) = unsafe {
        let wait = kernel::container_of!(entry, bindings::wait_page_queue, wait);
        if !bindings::kapi_wake_page_match(wait, key.cast()) {
            return 0;
        }
        bindings::kapi_list_del_init(&raw mut (*entry).entry);
        // CAST: `Opaque` is transparent.
        let wait = wait.cast::<Opaque<bindings::wait_page_queue>>();
        let slot = kernel::container_of!(wait, IoSlot, page_wait);
        let pdu = kernel::container_of!(slot, Pdu<D>, io);
        (slot, bindings::blk_mq_rq_from_pdu(pdu.cast()))
    };
    // SAFETY: As in `complete_callback`. The call, if it returns second, says to ask again.
    let before = unsafe {
        *(*slot).ret.get() = -(bindings::EAGAIN as isize);
        (*slot).handoff.swap(COMPLETED, Ordering::AcqRel)
    };
    if before == RETURNED {
        // SAFETY: As in `complete_callback`.
        // INVARIANT: It was a `DataRequest` then.
        D::page_read(DataRequest(unsafe {
            Request::from_raw(NonNull::new_unchecked(rq))
        }));
    }
    1
}
