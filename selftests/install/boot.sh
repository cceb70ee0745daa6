#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A system with rust_loop installed, booted by its own initramfs and systemd (prepare.sh): whoever wants a loop device
# has the driver loaded by that. Nothing here loads it, but for the end: next to the in-tree driver it says what to do.

export DRIVER=rust_loop WORK=/work
# shellcheck source=../lib.sh
. /dir/lib.sh

plan 25

loaded() {
	grep --quiet "^$1 " /proc/modules
}

unload() {
	umount --quiet /mnt/snap
	umount --quiet /mnt/data
	losetup --detach-all && await_unused && rmmod rust_loop && ! loaded rust_loop
}

# expect_loads NAME COMMAND...: it works with no driver loaded before, and one loaded after.
expect_loads() {
	expect_ok "unload before: $1" unload
	expect_ok "$@"
	expect_ok "loaded by: $1" loaded rust_loop
}

# open_by_number: a device node whose device is not there.
open_by_number() {
	mknod /dev/selftest b 7 3 && blockdev --getsize64 /dev/selftest
}

direct() {
	losetup --find --show --direct-io=on "$DATA/image"
}

defer mount /mnt/snap
defer rm -f /dev/selftest
truncate --size 8M "$DATA/image"

expect_eq "fstab: squashfs mounted at boot" "from a squashfs image" "$(cat /mnt/snap/hello)"
device=$(findmnt --noheadings --output SOURCE /mnt/snap)
expect_ok "fstab: by rust_loop" test -e "/sys/block/${device##*/}/loop/nowait"

expect_loads "opening /dev/loop-control" dd if=/dev/loop-control count=0
expect_loads "losetup --find" losetup --find
expect_loads "mount -o loop by fstab" mount /mnt/data
expect_loads "losetup --direct-io" direct
expect_loads "opening a node of major 7" open_by_number
expect_loads "modprobe@loop.service" systemctl start modprobe@loop.service
expect_ok "the in-tree driver is not loaded" failing loaded loop

unload
expect_ok "the in-tree driver, by force" insmod "/lib/modules/$(uname -r)/kernel/drivers/block/loop.ko.xz"
mark="rust_loop beside loop"
echo "$mark" >/dev/kmsg
modprobe rust_loop 2>"$TMP/modprobe"
expect_eq "beside it: modprobe fails with one line" \
	"modprobe: ERROR: could not insert 'rust_loop': Device or resource busy" "$(cat "$TMP/modprobe")"
expect_eq "beside it: one line in the log" \
	"rust_loop: cannot take /dev/loop-control: unload the in-tree driver first (rmmod loop)" \
	"$(dmesg --notime | sed "1,/$mark/d")"
rmmod loop
expect_ok "and after it: loads" losetup --find
