#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Kernel uevents as udev sees them (F60, F61): one change event at attach and at detach, with what names the device; one for
# each partition, none twice. The block layer says another change for a partition table that it has read.

. "$(dirname "$0")/lib.sh"

plan 11

DM=selftest-$$

IMAGE=$DATA/image
truncate --size 16M "$IMAGE"
DEV=$(losetup --find)
defer detach "$DEV"
udevadm settle

# property NAME: of the device's first event
property() {
	awk -v RS= -v device="${DEV#/dev/}" '!/SYNTH_UUID/ && $0 ~ ("DEVNAME=[^\n]*" device "\n")' "$TMP/uevents" |
		sed -n "s/^$1=//p" | head --lines=1
}

uevents losetup "$DEV" "$IMAGE"
expect_eq "attach" "change disk" "$(event_list "$DEV")"
expect_eq "attach: the names" "7 ${DEV#/dev/loop} disk" "$(property MAJOR) $(property MINOR) $(property DEVTYPE)"
expect_eq "attach: the sequence number" "$(cat "/sys/block/${DEV#/dev/}/diskseq")" "$(property DISKSEQ)"
uevents detach "$DEV"
expect_eq "detach" "change disk" "$(event_list "$DEV")"

sfdisk --quiet "$IMAGE" <<<$'label: gpt\nsize=4M\nsize=4M'
uevents losetup --partscan "$DEV" "$IMAGE"
expect_eq "attach, partitions: the disk's, and the table's" "change disk
change disk" "$(event_list "$DEV" | grep disk)"
expect_eq "attach, partitions: each is added once" "add partition PARTN=1
add partition PARTN=2" "$(event_list "$DEV" | grep partition)"
expect_eq "attach, partitions: the disk first" "change disk" "$(event_list "$DEV" | head --lines=1)"
uevents detach "$DEV"
expect_eq "detach, partitions: the disk's" "change disk" "$(event_list "$DEV" | grep disk)"
expect_eq "detach, partitions: each is removed once" "remove partition PARTN=1
remove partition PARTN=2" "$(event_list "$DEV" | grep partition | sort)"
uevents ioctl add /dev/loop-control index=90 >/dev/null
expect_eq "a new device" "add disk" "$(event_list /dev/loop90)"
ioctl remove /dev/loop-control index=90 >/dev/null

# A LOOP_CHANGE_FD that waits for its file, and is refused: what others do meanwhile is told all the same.
lower bdev
dmsetup create "$DM" <<<"0 $((128 << 11)) linear $SPARE 0" || bail "no device-mapper"
defer await dmsetup remove "$DM"
mkfs ext4 "/dev/mapper/$DM"
mount_at "/dev/mapper/$DM" lower || bail "no ext4"
truncate --size 8M "$IMAGE"
losetup --read-only "$DEV" "$IMAGE"

waits_or_ended() {
	! kill -0 "$1" || grep --quiet "folio_wait\|writeback" "/proc/$1/stack"
}
refused_change() {
	local changer

	head --bytes=1M /dev/urandom >"$LOWER/other"
	dmsetup suspend --noflush --nolockfs "$DM"
	"$SELFTESTS/ioctl.py" change-fd "$DEV" open=ro mode=ro file="$LOWER/other" >"$TMP/refused" 2>&1 </dev/null &
	changer=$!
	await waits_or_ended $changer
	truncate --size 9M "$IMAGE"
	losetup --set-capacity "$DEV"
	dmsetup --noudevsync resume "$DM"
	! wait $changer
}
uevents refused_change
expect_eq "a change that waits and is refused hides no other" "change disk
change disk RESIZE=1 EINVAL" "$(event_list "$DEV" | sort) $(<"$TMP/refused")"
