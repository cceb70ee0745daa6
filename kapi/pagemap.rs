// SPDX-License-Identifier: GPL-2.0

//! How the page cache of a file allocates.
//!
//! C header: [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h)

use super::{bindings, file};
use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

/// The files whose page cache allocates without I/O, each as often as someone asked for it: the
/// mask belongs to the file, so that only the last one to let go may put it back.
#[pin_data]
pub(crate) struct ReclaimMasks {
    #[pin]
    held: Mutex<KVec<Held>>,
}

/// One file's mask.
struct Held {
    mapping: usize,
    saved: bindings::gfp_t,
    count: usize,
}

impl ReclaimMasks {
    /// No files yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { held <- new_mutex!(KVec::new(), "ReclaimMasks::held") })
    }

    /// Has the page cache of `file` allocate with neither `__GFP_IO` nor `__GFP_FS` until the
    /// result is dropped. Sleeps. `ENOMEM`.
    pub(crate) fn forbid_io(self: &Arc<Self>, file: &File) -> Result<NoReclaimIo> {
        let mapping = file::mapping(file);
        let mut held = self.held.lock();
        if let Some(known) = held.iter_mut().find(|held| held.mapping == mapping.addr()) {
            known.count += 1;
        } else {
            // SAFETY: The mapping of an open file; its mask is a word.
            let saved = unsafe { bindings::kapi_mapping_gfp_mask(mapping) };
            held.push(
                Held {
                    mapping: mapping.addr(),
                    saved,
                    count: 1,
                },
                GFP_KERNEL,
            )?;
            // SAFETY: As above.
            unsafe { bindings::kapi_mapping_set_gfp_mask(mapping, saved & !bindings::GFP_IO_FS) };
        }
        drop(held);
        Ok(NoReclaimIo {
            masks: self.clone(),
            file: file.into(),
        })
    }
}

/// While this lives, the page cache of a file allocates without I/O. Dropped in process context.
pub(crate) struct NoReclaimIo {
    masks: Arc<ReclaimMasks>,
    file: ARef<File>,
}

impl Drop for NoReclaimIo {
    fn drop(&mut self) {
        let mapping = file::mapping(&self.file);
        let mut held = self.masks.held.lock();
        let Some(index) = held.iter().position(|held| held.mapping == mapping.addr()) else {
            return;
        };
        if let Some(known) = held.get_mut(index) {
            known.count -= 1;
            if known.count > 0 {
                return;
            }
            // SAFETY: The mapping of an open file; its mask is a word.
            unsafe { bindings::kapi_mapping_set_gfp_mask(mapping, known.saved) };
        }
        let _ = held.remove(index);
    }
}
