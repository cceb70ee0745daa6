#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# losetup -c on an image that changed its size: the new size, one RESIZE event, and the same block size, under a mounted
# file system too (F41).

. "$(dirname "$0")/lib.sh"

plan 9

IMAGE=$DATA/image
truncate --size 32M "$IMAGE"
need_attach "$IMAGE"

truncate --size 16M "$IMAGE"
expect_eq "nothing changes by itself" $((32 << 20)) "$(blockdev --getsize64 "$LOOP")"
losetup --set-capacity "$LOOP"
expect_eq "shrunk" $((16 << 20)) "$(blockdev --getsize64 "$LOOP")"
uevents losetup --set-capacity "$LOOP"
expect_eq "no change of size: one plain change event" "change disk" "$(event_list "$LOOP")"

mkfs ext4 "$LOOP" -b 4096 >/dev/null
mount_at "$LOOP" upper
cp "$SELFTESTS/lib.sh" "$TMP/upper/file"
truncate --size 64M "$IMAGE"
uevents losetup --set-capacity "$LOOP"
expect_eq "grown under a mounted file system: one RESIZE event" "change disk RESIZE=1" "$(event_list "$LOOP")"
expect_eq "grown under a mounted file system: the size" $((64 << 20)) "$(blockdev --getsize64 "$LOOP")"
expect_eq "grown under a mounted file system: the block size stays" "4096 512" \
	"$(blockdev --getbsz "$LOOP") $(blockdev --getss "$LOOP")"
expect_ok "the file system grows" resize2fs "$LOOP"
expect_ok "its data is there" cmp "$SELFTESTS/lib.sh" "$TMP/upper/file"
unmount "$TMP/upper"
expect_ok "fsck" fsck ext4 "$LOOP"
