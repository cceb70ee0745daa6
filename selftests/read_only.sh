#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The forms of read-only: by losetup -r, by a backing file opened read-only, by a device opened read-only, by blockdev --setro.

. "$(dirname "$0")/lib.sh"

plan 15

IMAGE=$DATA/image
head --bytes=1M /dev/urandom >"$IMAGE"
SUM=$(checksum "$IMAGE")

# refuses_writes HOW: $LOOP, which it detaches, is read-only, and no write goes through.
refuses_writes() {
	local how=$1

	expect_eq "$how: the device is read-only" 1 "$(blockdev --getro "$LOOP")"
	expect_ok "$how: a write fails" failing dd if=/dev/zero of="$LOOP" bs=4k count=1 oflag=direct
	detach "$LOOP"
	expect_eq "$how: nothing was written" "$SUM" "$(checksum "$IMAGE")"
}

need_attach "$IMAGE" --read-only
expect_eq "losetup -r: the flag" flags=read_only "$(ioctl get-status64 "$LOOP" open=ro | grep -o 'flags=[^ ]*')"
expect_eq "losetup -r: no write cache to flush" "write through" "$(queue_attr "$LOOP" write_cache)"
refuses_writes "losetup -r"

free=$(losetup --find)
defer detach "$free"
ioctl set-fd "$free" file="$IMAGE" mode=ro >/dev/null
LOOP=$free
refuses_writes "file opened read-only"

ioctl set-fd "$free" file="$IMAGE" open=ro >/dev/null
LOOP=$free
refuses_writes "device opened read-only"

need_attach "$IMAGE"
expect_eq "read-write: the device is" 0 "$(blockdev --getro "$LOOP")"
blockdev --setro "$LOOP"
defer blockdev --setrw "$LOOP"
refuses_writes "blockdev --setro"
