// SPDX-License-Identifier: GPL-2.0

//! The values of the LOOP ioctl structures: flags, checks, conversion to the old structure.
//!
//! C header: `include/uapi/linux/loop.h`. Layouts are the kernel side's business, which copies the
//! fields in and out and asserts that the constants here are those of the header. Numbers keep the
//! header's width; they come from users and nothing is assumed about them.

/// Length of the name field, in bytes, with its terminator (`LO_NAME_SIZE`).
pub(crate) const NAME_SIZE: usize = 64;

/// `LO_CRYPT_NONE`.
pub(crate) const CRYPT_NONE: u32 = 0;
/// `LO_CRYPT_XOR`, once a trivial cipher.
pub(crate) const CRYPT_XOR: u32 = 1;
/// `LO_CRYPT_CRYPTOAPI`, once cryptoloop.
pub(crate) const CRYPT_CRYPTOAPI: u32 = 18;

/// Why values from a user are refused, or cannot be given to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InfoError {
    /// `EINVAL`.
    Invalid,
    /// `EOVERFLOW`: a value does not fit where it has to go.
    Overflow,
    /// `EINVAL`, and worth a line in the log: the XOR transformation is long gone.
    RemovedXor,
    /// `EINVAL`, and worth a line in the log: cryptoloop is long gone.
    RemovedCryptoapi,
}

/// A set of `LO_FLAGS_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// `LO_FLAGS_READ_ONLY`.
    pub(crate) const READ_ONLY: Self = Self(1);
    /// `LO_FLAGS_AUTOCLEAR`: detach on last close.
    pub(crate) const AUTOCLEAR: Self = Self(4);
    /// `LO_FLAGS_PARTSCAN`.
    pub(crate) const PARTSCAN: Self = Self(8);
    /// `LO_FLAGS_DIRECT_IO`.
    pub(crate) const DIRECT_IO: Self = Self(16);

    /// `LOOP_CONFIGURE_SETTABLE_FLAGS`: what LOOP_CONFIGURE may ask for.
    pub(crate) const CONFIGURE_SETTABLE: Self = Self::READ_ONLY
        .with(Self::AUTOCLEAR)
        .with(Self::PARTSCAN)
        .with(Self::DIRECT_IO);
    /// `LOOP_SET_STATUS_SETTABLE_FLAGS`: what LOOP_SET_STATUS may switch on.
    pub(crate) const SET_STATUS_SETTABLE: Self = Self::AUTOCLEAR.with(Self::PARTSCAN);
    /// `LOOP_SET_STATUS_CLEARABLE_FLAGS`: what LOOP_SET_STATUS may switch off.
    pub(crate) const SET_STATUS_CLEARABLE: Self = Self::AUTOCLEAR;

    /// Any set of bits, checked or not.
    #[cfg(test)]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The set as the header has it.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether every flag of `other` is set.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other` set.
    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With the flags of `other` cleared.
    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The flags LOOP_CONFIGURE asks for; unknown ones are an error.
    pub(crate) fn for_configure(bits: u32) -> Result<Self, InfoError> {
        let flags = Self(bits);
        if flags.without(Self::CONFIGURE_SETTABLE) != Self::default() {
            return Err(InfoError::Invalid);
        }
        Ok(flags)
    }

    /// The flags of a device after LOOP_SET_STATUS with the bits `requested`.
    ///
    /// Bits it may not change are ignored, as every caller gives back what LOOP_GET_STATUS told.
    #[must_use]
    pub(crate) fn after_set_status(self, requested: u32) -> Self {
        let allowed = Self(requested & Self::SET_STATUS_SETTABLE.0);
        self.without(Self::SET_STATUS_CLEARABLE).with(allowed)
    }
}

/// What `struct loop_info64` holds, without the fields that mean nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Byte in the backing file where the device starts.
    pub(crate) offset: u64,
    /// Size limit of the device, in bytes; 0 for none.
    pub(crate) sizelimit: u64,
    /// `LO_FLAGS_*`.
    pub(crate) flags: u32,
    /// `LO_CRYPT_*`.
    pub(crate) encrypt_type: u32,
    /// Length of the key, in bytes.
    pub(crate) encrypt_key_size: u32,
    /// Name the user gave the backing file.
    pub(crate) name: [u8; NAME_SIZE],
    /// Number of the device; told, never set.
    pub(crate) number: u32,
    /// Device number of the file system the file is on, in user space's encoding; told, never set.
    pub(crate) device: u64,
    /// Inode number of the file; told, never set.
    pub(crate) inode: u64,
    /// Device number of the file if it is a device; told, never set.
    pub(crate) rdevice: u64,
}

impl Status {
    /// Whether a device can take these values; `key_size_max` is `LO_KEY_SIZE`.
    ///
    /// Flags are not looked at: each ioctl has its own rule, see [`Flags`]. Of several faults the
    /// one the in-tree driver reports is reported: key size, encryption, then range.
    pub(crate) fn validate(&self, key_size_max: u32) -> Result<(), InfoError> {
        if self.encrypt_key_size > key_size_max {
            return Err(InfoError::Invalid);
        }
        match self.encrypt_type {
            CRYPT_NONE => {}
            CRYPT_XOR => return Err(InfoError::RemovedXor),
            CRYPT_CRYPTOAPI => return Err(InfoError::RemovedCryptoapi),
            _ => return Err(InfoError::Invalid),
        }
        // Both become signed file positions.
        for bytes in [self.offset, self.sizelimit] {
            i64::try_from(bytes).map_err(|_| InfoError::Overflow)?;
        }
        Ok(())
    }

    /// The name, cut so that a terminator fits.
    pub(crate) fn terminated_name(&self) -> [u8; NAME_SIZE] {
        let mut name = self.name;
        if let Some(last) = name.last_mut() {
            *last = 0;
        }
        name
    }

    /// The values as the old structure has them, `EOVERFLOW` where it is too narrow.
    ///
    /// The old structure knows no size limit and leaves that out.
    pub(crate) fn to_old<D, I>(&self) -> Result<OldStatus<D, I>, InfoError>
    where
        D: TryFrom<u64>,
        I: TryFrom<u64>,
    {
        fn narrow<F, T: TryFrom<F>>(value: F) -> Result<T, InfoError> {
            T::try_from(value).map_err(|_| InfoError::Overflow)
        }

        Ok(OldStatus {
            number: narrow(self.number)?,
            device: narrow(self.device)?,
            inode: narrow(self.inode)?,
            rdevice: narrow(self.rdevice)?,
            offset: narrow(self.offset)?,
            flags: narrow(self.flags)?,
            name: self.name,
        })
    }

    /// The values a user gave in the old structure.
    ///
    /// Its encryption fields are ignored, as in the in-tree driver. A negative offset becomes one
    /// that [`Status::validate`] refuses. The error is only for a `D` or `I` that can hold more
    /// than 64 bits.
    pub(crate) fn from_old<D, I>(old: OldStatus<D, I>) -> Result<Self, InfoError>
    where
        D: TryInto<u64>,
        I: TryInto<u64>,
    {
        fn widen<T: TryInto<u64>>(value: T) -> Result<u64, InfoError> {
            value.try_into().map_err(|_| InfoError::Overflow)
        }

        Ok(Self {
            offset: i64::from(old.offset) as u64,
            sizelimit: 0,
            // The header has these signed here and unsigned in the other structure: same bits.
            flags: old.flags as u32,
            number: old.number as u32,
            encrypt_type: CRYPT_NONE,
            encrypt_key_size: 0,
            name: old.name,
            device: widen(old.device)?,
            inode: widen(old.inode)?,
            rdevice: widen(old.rdevice)?,
        })
    }
}

/// What `struct loop_info` holds, without the fields that mean nothing any more.
///
/// `D` is the ABI's old device number and `I` its `unsigned long`. They differ between ABIs: on
/// x86-64 both have 64 bits; its 32-bit programs have 16 and 32; most others 32 and a word. The
/// types of the bindings serve as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OldStatus<D, I> {
    /// See [`Status::number`].
    pub(crate) number: i32,
    /// See [`Status::device`].
    pub(crate) device: D,
    /// See [`Status::inode`].
    pub(crate) inode: I,
    /// See [`Status::rdevice`].
    pub(crate) rdevice: D,
    /// See [`Status::offset`].
    pub(crate) offset: i32,
    /// See [`Status::flags`].
    pub(crate) flags: i32,
    /// See [`Status::name`].
    pub(crate) name: [u8; NAME_SIZE],
}
