#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Unloading (F29): refused while a device is open or bound, also while I/O runs; clean right after; and loads again.

. "$(dirname "$0")/lib.sh"

plan 12

defer reload_default
IMAGE=$DATA/image
truncate --size 16M "$IMAGE"

# refused WHEN
refused() {
	expect_ok "refused while $1" failing rmmod "$DRIVER"
}

gone() {
	[ ! -e /dev/loop-control ] && [ ! -e /dev/loop0 ] && ! grep --quiet ' loop$' /proc/devices
}

await_unused
exec 9</dev/loop0
refused "a device is open"
exec 9<&-
exec 9</dev/loop-control
refused "loop-control is open"
exec 9<&-
need_attach "$IMAGE"
refused "bound"
dd if=/dev/zero of="$LOOP" bs=64k count=256 oflag=direct status=none &
refused "written to"
wait $!
expect_eq "and the writer does not notice" 0 $?
expect_ok "the device is still there" cmp --bytes=16M "$LOOP" /dev/zero
mkfs ext4 "$LOOP"
mount_at "$LOOP" upper
refused "mounted"
unmount "$TMP/upper"
losetup --detach "$LOOP"
expect_ok "right after detach it unloads" await rmmod "$DRIVER"
expect_ok "nothing of it is left" await gone

again() {
	local i

	for ((i = 0; i < 10; i++)); do
		modprobe "$DRIVER" && attach "$IMAGE" && detach "$LOOP" && await rmmod "$DRIVER" || return
	done
}

expect_ok "loads and unloads over and over" again
expect_ok "loads again" reload_default
expect_ok "and works" attach "$IMAGE"
