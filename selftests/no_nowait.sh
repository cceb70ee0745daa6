#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Backing files that know no IOCB_NOWAIT (F4): tmpfs, vfat, overlayfs, squashfs; and those that may wait all the same: f2fs,
# block devices without direct I/O. They work, and no command is tried.

. "$(dirname "$0")/lib.sh"

plan 18

# never_tries ON
never_tries() {
	rust_only "$1: no command is tried" && return
	expect_eq "$1: no command is tried" "0 0 0 yes" "$(inline "$LOOP") $(loop_attr "$LOOP" inline_done) \
$(loop_attr "$LOOP" inline_again) $([ "$(loop_attr "$LOOP" not_tried_filesystem)" -gt 0 ] && echo yes)"
}

# writable ON DIO
writable() {
	need_attach "$IMAGE" --direct-io="$2"
	expect_ok "$1: data" fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --rw=randrw --bs=4k --size=4M
	never_tries "$1"
	detach "$LOOP"
}

for kind in tmpfs vfat f2fs bdev; do
	lower $kind
	image $kind 8M
	writable $kind off
	if [ $kind = vfat ] || [ $kind = f2fs ]; then
		writable "$kind, direct I/O" on
	fi
	release
done

lower ext4
mkdir "$LOWER/lower" "$LOWER/upper" "$LOWER/work"
truncate --size 8M "$LOWER/lower/image"
mount_at overlay overlay -t overlay -o "lowerdir=$LOWER/lower,upperdir=$LOWER/upper,workdir=$LOWER/work"
IMAGE=$TMP/overlay/image
writable overlayfs off

head --bytes=4M /dev/urandom >"$LOWER/lower/random"
mksquashfs "$LOWER/lower" "$DATA/squashfs" -quiet -no-progress >"$TMP/out"
mount_at "$DATA/squashfs" squashfs -t squashfs -o ro,loop
need_attach "$TMP/squashfs/random" --read-only
expect_ok "squashfs: data" cmp "$LOOP" "$LOWER/lower/random"
never_tries squashfs
expect_ok "squashfs: is read-only" failing dd if=/dev/zero of="$LOOP" bs=4k count=1
expect_eq "squashfs: and says so" 1 "$(blockdev --getro "$LOOP")"
detach "$LOOP"
