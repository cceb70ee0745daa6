// SPDX-License-Identifier: GPL-2.0

//! Sizes and ranges of a loop device: capacity, positions, block size, direct I/O alignment.
//!
//! Pure arithmetic on values that come from users or from the backing file, so nothing here may
//! overflow or panic. Byte counts are `u64`; a device sector is always 512 bytes, whatever the
//! device's block size is.

/// Size of a device sector, in bytes, as a shift.
pub(crate) const SECTOR_SHIFT: u32 = 9;

/// Size of a device sector, in bytes.
pub(crate) const SECTOR_SIZE: u64 = 1 << SECTOR_SHIFT;

/// The sector size in the type of queue limits.
const SECTOR_BYTES: u32 = 1 << SECTOR_SHIFT;

/// Why a value from a user cannot be used; `EINVAL` to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeometryError {
    /// The block size is below a sector or above the limit of the block layer.
    BlockSizeRange,
    /// The block size is not a power of two.
    BlockSizeNotPowerOfTwo,
}

/// Capacity of a device, in whole sectors.
///
/// `file_bytes` is the size of the backing file, `offset` the byte in it where the device starts.
/// A start beyond the end of the file gives an empty device. A `sizelimit` of 0 means no limit, any
/// other value caps the device's size in bytes. A tail shorter than a sector is not reachable.
pub(crate) fn capacity_sectors(file_bytes: u64, offset: u64, sizelimit: u64) -> u64 {
    let bytes = file_bytes.saturating_sub(offset);
    let bytes = if sizelimit > 0 {
        bytes.min(sizelimit)
    } else {
        bytes
    };
    bytes >> SECTOR_SHIFT
}

/// Byte position in the backing file of a device sector.
///
/// `None` if the position is more than a file position (`loff_t`, signed 64 bits) can hold.
pub(crate) fn file_position(sector: u64, offset: u64) -> Option<u64> {
    let position = sector.checked_mul(SECTOR_SIZE)?.checked_add(offset)?;
    i64::try_from(position).ok()?;
    Some(position)
}

/// A block size a user asked for.
///
/// # Invariants
///
/// A power of two, not below a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSize(u32);

impl BlockSize {
    /// Checks a block size in bytes against `max`, the largest the block layer accepts.
    ///
    /// 0 asks for the default, given as `None`; see [`DioConstraints::default_block_size`].
    pub(crate) fn new(bytes: u64, max: u32) -> Result<Option<Self>, GeometryError> {
        if bytes == 0 {
            return Ok(None);
        }
        let bytes = u32::try_from(bytes).map_err(|_| GeometryError::BlockSizeRange)?;
        if !(SECTOR_BYTES..=max).contains(&bytes) {
            return Err(GeometryError::BlockSizeRange);
        }
        if !bytes.is_power_of_two() {
            return Err(GeometryError::BlockSizeNotPowerOfTwo);
        }
        // INVARIANT: Both were just checked.
        Ok(Some(Self(bytes)))
    }

    /// The block size, in bytes.
    pub(crate) fn bytes(self) -> u32 {
        self.0
    }
}

/// What a backing file asks of direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DioConstraints {
    /// Alignment of file positions and lengths, in bytes: the smallest unit of direct I/O.
    pub(crate) offset_align: u32,
    /// Alignment of memory, in bytes, less one: a mask of the form of a queue's `dma_alignment`.
    pub(crate) mem_align_mask: u32,
}

impl Default for DioConstraints {
    /// A file system that tells nothing: one sector for both.
    fn default() -> Self {
        Self {
            offset_align: SECTOR_BYTES,
            mem_align_mask: SECTOR_BYTES - 1,
        }
    }
}

impl DioConstraints {
    /// From `STATX_DIOALIGN`, both alignments in bytes.
    ///
    /// `None` if the file system reports zero, as it does for a file that takes no direct I/O.
    /// Memory handed down by the block layer is never aligned to more than a page, so the mask is
    /// cut at one.
    pub(crate) fn from_statx(offset_align: u32, mem_align: u32, page_size: u32) -> Option<Self> {
        let mem_align_mask = mem_align.checked_sub(1)?.min(page_size.saturating_sub(1));
        Some(Self {
            offset_align,
            mem_align_mask,
        })
    }

    /// From the limits of the block device below: its logical block size, in bytes, and its
    /// `dma_alignment` mask.
    pub(crate) fn from_queue(logical_block_size: u32, dma_mask: u32) -> Self {
        Self {
            offset_align: logical_block_size,
            mem_align_mask: dma_mask,
        }
    }

    /// Whether a device of this block size that starts at `offset` can do direct I/O.
    ///
    /// Every request must be aligned in the file, so both the start and the block size have to be
    /// multiples of the file's unit. The block size is a power of two; a unit that is none (a
    /// realtime extent size of XFS, or zero) can divide it in no useful case, and is refused.
    pub(crate) fn allows(&self, logical_block_size: u32, offset: u64, can_odirect: bool) -> bool {
        can_odirect
            && self.offset_align.is_power_of_two()
            && logical_block_size >= self.offset_align
            && offset & (u64::from(self.offset_align) - 1) == 0
    }

    /// The `dma_alignment` mask of the device's queue.
    ///
    /// Direct I/O hands the pages of a request down unchanged, so the file's rule becomes the
    /// device's. It is never laxer than a sector, the rule for buffered I/O.
    pub(crate) fn dma_alignment_mask(&self, direct_io: bool) -> u32 {
        if direct_io {
            self.mem_align_mask.max(SECTOR_BYTES - 1)
        } else {
            SECTOR_BYTES - 1
        }
    }

    /// The block size, in bytes, of a device whose user asked for none.
    ///
    /// With direct I/O it follows the file's unit, if the unit, up to `max`, makes a block size.
    pub(crate) fn default_block_size(&self, direct_io: bool, max: u32) -> u32 {
        match BlockSize::new(u64::from(self.offset_align), max) {
            Ok(Some(unit)) if direct_io => unit.bytes(),
            _ => SECTOR_BYTES,
        }
    }
}
