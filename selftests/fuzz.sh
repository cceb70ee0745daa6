#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Random ioctls of devices and /dev/loop-control, sysfs writes and I/O by several processes, some of them killed, over a disk
# that fails and a file system that is frozen: fuzz.py, which has the invariants that hold all the time (F11, F20, F26, F28, F29).
# Afterwards nothing holds what is below. FUZZ_SEED and FUZZ_SECONDS draw other steps, and more.

. "$(dirname "$0")/lib.sh"

plan 8

SEED=${FUZZ_SEED:-1}
LONG=${FUZZ_SECONDS:-40}
RUN=fuzz-$$

# Operations that are of no use if none of them ever works.
operations="open close configure set_fd change_fd clr_fd set_status64 set_status get_status64 get_status set_capacity
	set_direct_io set_block_size add remove get_free partition write_sysfs read_sysfs probe read write fsync discard"

# Who looks at devices on events would be one opener more; fuzz.py has some of its own.
udev_back() {
	pgrep systemd-udevd >/dev/null || (cd / && /usr/lib/systemd/systemd-udevd --daemon)
}

# disk NAME FIRST SECTORS: a part of $SPARE
disk() {
	dmsetup create "$RUN-$1" <<<"0 $3 linear $SPARE $2" || bail "no device-mapper"
	defer no_disk "$1"
}

no_disk() {
	[ ! -e "/dev/mapper/$RUN-$1" ] || dmsetup --noudevsync --noudevrules remove "$RUN-$1"
}

fuzz() {
	timeout $((LONG * 4 + 200)) "$SELFTESTS/fuzz.py" "$LONG" "$SEED" "$DRIVER" "$TMP/lower" "/dev/mapper/$RUN-faulty" "$SPARE" \
		>"$TMP/fuzz"
	status=$?
	tail -n 60 "$TMP/fuzz"
	return $status
}

# idle: operations that never worked
idle() {
	local name

	for name in $operations; do
		grep --quiet "\"$name ok\"" "$TMP/fuzz" || echo "$name"
	done
}

all_removed() {
	local index

	for index in 10 11 12 13; do
		[ ! -e "/sys/block/loop$index" ] || ioctl remove /dev/loop-control index=$index || return
	done
}

heads() {
	cmp --bytes=65536 "$TMP/lower/guarded" "$TMP/lower/plain.head" &&
		cmp --bytes=65536 "$TMP/lower/guarded-sparse" "$TMP/lower/plain.head"
}

disk faulty 0 $((32 << 11))
disk lower $((64 << 11)) $((512 << 11))
defer reload_default
defer udev_back
udevadm settle
udevadm control --exit
await failing pgrep systemd-udevd >/dev/null
await_unused
mkfs ext4 "/dev/mapper/$RUN-lower" >"$TMP/mkfs"
mount_at "/dev/mapper/$RUN-lower" lower || bail "no ext4"

expect_ok "all invariants hold, seed $SEED" fuzz
diag "$(sed -n 's/^## fuzz //p' "$TMP/fuzz")"
expect_eq "every operation has worked" "" "$(idle)"
expect_ok "nothing was written in front of a device" heads
expect_ok "all devices can be removed" all_removed
expect_ok "nothing holds the lower file system" umount "$TMP/lower"
expect_ok "which is clean" fsck ext4 "/dev/mapper/$RUN-lower"
expect_ok "nothing holds the disk" no_disk faulty
expect_ok "nor the module" rmmod "$DRIVER"
