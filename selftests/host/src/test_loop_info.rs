// SPDX-License-Identifier: GPL-2.0

use crate::loop_info::*;
use proptest::prelude::*;

const KEY_SIZE_MAX: u32 = 32;

/// The old structure as x86-64 has it, as its 32-bit programs have it, and as most others have it.
type Native = OldStatus<usize, usize>;
type Compat = OldStatus<u16, u32>;
type Generic32 = OldStatus<u32, u32>;

fn status() -> Status {
    Status {
        offset: 0,
        sizelimit: 0,
        flags: 0,
        encrypt_type: CRYPT_NONE,
        encrypt_key_size: 0,
        name: [0; NAME_SIZE],
        number: 0,
        device: 0,
        inode: 0,
        rdevice: 0,
    }
}

#[test]
fn flags_are_those_of_the_header() {
    assert_eq!(Flags::READ_ONLY.bits(), 1);
    assert_eq!(Flags::AUTOCLEAR.bits(), 4);
    assert_eq!(Flags::PARTSCAN.bits(), 8);
    assert_eq!(Flags::DIRECT_IO.bits(), 16);
    assert_eq!(Flags::CONFIGURE_SETTABLE.bits(), 29);
    assert_eq!(Flags::SET_STATUS_SETTABLE.bits(), 12);
    assert_eq!(Flags::SET_STATUS_CLEARABLE.bits(), 4);
}

#[test]
fn flags_are_a_set() {
    let both = Flags::READ_ONLY.with(Flags::DIRECT_IO);
    assert!(both.contains(Flags::READ_ONLY) && both.contains(Flags::DIRECT_IO));
    assert!(both.contains(both) && both.contains(Flags::default()));
    assert!(!both.contains(Flags::AUTOCLEAR));
    assert!(!both.contains(Flags::AUTOCLEAR.with(Flags::READ_ONLY)));
    assert_eq!(both.without(Flags::DIRECT_IO), Flags::READ_ONLY);
    assert_eq!(both.without(Flags::PARTSCAN), both);
    assert_eq!(both.with(Flags::DIRECT_IO), both);
}

#[test]
fn set_status_switches_on_autoclear_and_partscan_only() {
    let after = |flags: u32, requested| Flags::from_bits(flags).after_set_status(requested).bits();
    assert_eq!(after(0, 4), 4);
    assert_eq!(after(0, 8), 8);
    assert_eq!(after(0, 1 | 16), 0);
    assert_eq!(after(0, u32::MAX), 12);
}

#[test]
fn set_status_switches_off_autoclear_only() {
    let after = |flags: u32, requested| Flags::from_bits(flags).after_set_status(requested).bits();
    assert_eq!(after(4, 0), 0);
    assert_eq!(after(1 | 4 | 8 | 16, 0), 1 | 8 | 16);
    assert_eq!(after(4, 4), 4);
}

#[test]
fn validate_takes_what_a_device_can_have() {
    assert_eq!(status().validate(KEY_SIZE_MAX), Ok(()));
    let max = Status {
        offset: i64::MAX as u64,
        sizelimit: i64::MAX as u64,
        encrypt_key_size: KEY_SIZE_MAX,
        // Not looked at here.
        flags: u32::MAX,
        ..status()
    };
    assert_eq!(max.validate(KEY_SIZE_MAX), Ok(()));
}

#[test]
fn validate_refuses_encryption() {
    let with = |encrypt_type| {
        let status = Status {
            encrypt_type,
            ..status()
        };
        status.validate(KEY_SIZE_MAX)
    };
    assert_eq!(with(1), Err(InfoError::RemovedXor));
    assert_eq!(with(18), Err(InfoError::RemovedCryptoapi));
    for other in (2..18).chain(19..40).chain([u32::MAX]) {
        assert_eq!(with(other), Err(InfoError::Invalid), "{other}");
    }
}

#[test]
fn validate_refuses_a_long_key() {
    for encrypt_key_size in [KEY_SIZE_MAX + 1, u32::MAX] {
        let long = Status {
            encrypt_key_size,
            ..status()
        };
        assert_eq!(long.validate(KEY_SIZE_MAX), Err(InfoError::Invalid));
    }
}

#[test]
fn validate_refuses_what_no_file_position_holds() {
    for bytes in [i64::MAX as u64 + 1, u64::MAX] {
        let offset = Status {
            offset: bytes,
            ..status()
        };
        assert_eq!(offset.validate(KEY_SIZE_MAX), Err(InfoError::Overflow));
        let limit = Status {
            sizelimit: bytes,
            ..status()
        };
        assert_eq!(limit.validate(KEY_SIZE_MAX), Err(InfoError::Overflow));
    }
}

#[test]
fn validate_tells_the_first_fault_the_in_tree_driver_would() {
    let mut bad = Status {
        encrypt_key_size: KEY_SIZE_MAX + 1,
        encrypt_type: CRYPT_XOR,
        offset: u64::MAX,
        ..status()
    };
    assert_eq!(bad.validate(KEY_SIZE_MAX), Err(InfoError::Invalid));
    bad.encrypt_key_size = 0;
    assert_eq!(bad.validate(KEY_SIZE_MAX), Err(InfoError::RemovedXor));
    bad.encrypt_type = CRYPT_NONE;
    assert_eq!(bad.validate(KEY_SIZE_MAX), Err(InfoError::Overflow));
}

#[test]
fn name_is_cut_at_its_last_byte() {
    let mut full = Status {
        name: [b'x'; NAME_SIZE],
        ..status()
    };
    let name = full.terminated_name();
    assert!(name.starts_with(&[b'x'; NAME_SIZE - 1]));
    assert!(name.ends_with(&[0]));
    full.name[3] = 0;
    assert!(full.terminated_name().starts_with(b"xxx\0xxx"));
}

#[test]
fn to_old_tells_what_does_not_fit() {
    let offset = |offset| Status { offset, ..status() }.to_old::<usize, usize>();
    assert_eq!(offset((1 << 31) - 1).map(|old| old.offset), Ok(i32::MAX));
    assert_eq!(offset(1 << 31), Err(InfoError::Overflow));
    // A whole number of 4 GiB, which a cast would turn into 0.
    assert_eq!(offset(1 << 32), Err(InfoError::Overflow));

    let inode = Status {
        inode: 1 << 32,
        ..status()
    };
    assert!(inode.to_old::<usize, usize>().is_ok());
    assert_eq!(inode.to_old::<u16, u32>(), Err(InfoError::Overflow));

    // Device 259:0 as user space encodes it.
    let device = Status {
        device: 0x10300,
        ..status()
    };
    assert!(device.to_old::<usize, usize>().is_ok());
    assert!(device.to_old::<u32, u32>().is_ok());
    assert_eq!(device.to_old::<u16, u32>(), Err(InfoError::Overflow));
    let rdevice = Status {
        rdevice: 0x10300,
        ..status()
    };
    assert_eq!(rdevice.to_old::<u16, u32>(), Err(InfoError::Overflow));
}

#[test]
fn from_old_keeps_every_bit_and_sets_no_limit() {
    let old = Compat {
        number: 7,
        device: u16::MAX,
        inode: u32::MAX,
        rdevice: 0x701,
        offset: i32::MAX,
        flags: -1,
        name: [b'n'; NAME_SIZE],
    };
    let expected = Status {
        offset: i32::MAX as u64,
        flags: u32::MAX,
        name: [b'n'; NAME_SIZE],
        number: 7,
        device: u64::from(u16::MAX),
        inode: u64::from(u32::MAX),
        rdevice: 0x701,
        ..status()
    };
    assert_eq!(Status::from_old(old), Ok(expected));
}

#[test]
fn a_negative_old_offset_overflows() {
    for offset in [-1, i32::MIN] {
        let old = Generic32 {
            number: 0,
            device: 0,
            inode: 0,
            rdevice: 0,
            offset,
            flags: 0,
            name: [0; NAME_SIZE],
        };
        let status = Status::from_old(old).unwrap();
        assert_eq!(status.validate(KEY_SIZE_MAX), Err(InfoError::Overflow));
    }
}

/// A device number, inode or offset: fits everywhere, fits somewhere, or anything.
fn wide() -> impl Strategy<Value = u64> {
    prop_oneof![0..=0xffffu64, 0..=0xffff_ffffu64, any::<u64>()]
}

prop_compose! {
    fn any_status()(
        (offset, device, inode, rdevice) in (wide(), wide(), wide(), wide()),
        number in 0..1u32 << 20,
        flags in 0..32u32,
        name in prop::array::uniform32(any::<[u8; 2]>()),
    ) -> Status {
        let mut bytes = [0; NAME_SIZE];
        bytes.copy_from_slice(name.as_flattened());
        Status { offset, flags, number, device, inode, rdevice, name: bytes, ..status() }
    }
}

proptest! {
    #[test]
    fn configure_takes_known_flags_only(bits in prop_oneof![0..64u32, any::<u32>()]) {
        match Flags::for_configure(bits) {
            Ok(flags) => {
                prop_assert_eq!(bits & !29, 0);
                prop_assert_eq!(flags.bits(), bits);
            }
            Err(error) => {
                prop_assert_ne!(bits & !29, 0);
                prop_assert_eq!(error, InfoError::Invalid);
            }
        }
    }

    /// Bit by bit: autoclear is as requested, partscan only ever comes on, the rest stays.
    #[test]
    fn set_status_touches_its_own_bits(flags in any::<u32>(), requested in any::<u32>()) {
        let after = Flags::from_bits(flags).after_set_status(requested).bits();
        prop_assert_eq!(after & 4, requested & 4);
        prop_assert_eq!(after & 8, (flags | requested) & 8);
        prop_assert_eq!(after & !12, flags & !12);
    }

    /// What LOOP_GET_STATUS tells, LOOP_SET_STATUS takes without a change.
    #[test]
    fn set_status_of_the_present_flags_changes_nothing(flags in any::<u32>()) {
        prop_assert_eq!(Flags::from_bits(flags).after_set_status(flags).bits(), flags);
    }

    /// To the old structure and back: either nothing is lost or the user is told.
    #[test]
    fn old_structure_round_trips_or_overflows(status in any_status()) {
        fn check<D, I>(status: &Status, fits: bool) -> Result<(), TestCaseError>
        where
            D: TryFrom<u64> + TryInto<u64>,
            I: TryFrom<u64> + TryInto<u64>,
        {
            let old: Result<OldStatus<D, I>, _> = status.to_old();
            prop_assert_eq!(old.is_ok(), fits);
            match old {
                Ok(old) => prop_assert_eq!(Status::from_old(old), Ok(status.clone())),
                Err(error) => prop_assert_eq!(error, InfoError::Overflow),
            }
            Ok(())
        }

        let s = &status;
        let offset = s.offset < 1 << 31;
        let devices = |bits: u32| s.device >> bits == 0 && s.rdevice >> bits == 0;
        check::<usize, usize>(s, offset)?;
        check::<u32, u32>(s, offset && devices(32) && s.inode >> 32 == 0)?;
        check::<u16, u32>(s, offset && devices(16) && s.inode >> 32 == 0)?;
    }

    /// From the old structure and back. Nothing a user can give makes a panic.
    #[test]
    fn any_old_structure_is_taken(
        (device, inode, rdevice) in any::<(usize, usize, usize)>(),
        (number, offset, flags) in any::<(i32, i32, i32)>(),
    ) {
        let old = Native { number, device, inode, rdevice, offset, flags, name: [1; NAME_SIZE] };
        let status = Status::from_old(old.clone()).unwrap();
        prop_assert_eq!(status.validate(KEY_SIZE_MAX).is_ok(), offset >= 0);
        if number >= 0 && offset >= 0 && flags >= 0 {
            prop_assert_eq!(status.to_old(), Ok(old));
        }
    }
}
