#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An image cut short behind the device's back: what is there reads right, what is beyond is EIO, a write grows it again.

. "$(dirname "$0")/lib.sh"

plan 14

IMAGE=$DATA/image

# read_at DEVICE SECTOR SECTORS: as one request, to $DATA/seen; the kernel's word for the error.
read_at() {
	dd if="$1" of="$DATA/seen" bs=$(($3 * 512)) iflag=direct,skip_bytes skip=$(($2 * 512)) count=1 2>&1 |
		grep -o 'Input/output error'
}

for dio in off on; do
	on="direct I/O $dio"
	head --bytes=2M /dev/urandom >"$DATA/data"
	cp "$DATA/data" "$IMAGE"
	need_attach "$IMAGE" --direct-io=$dio
	uncache "$IMAGE"
	truncate --size $((1048576 + 2048)) "$IMAGE"
	expect_eq "$on: the device keeps its size" 2097152 "$(blockdev --getsize64 "$LOOP")"
	expect_eq "$on: up to the end reads" "" "$(read_at "$LOOP" 1024 1024)"
	expect_ok "$on: and is right" cmp --ignore-initial=524288:0 --bytes=524288 "$DATA/data" "$DATA/seen"
	expect_eq "$on: across the end is EIO" "Input/output error" "$(read_at "$LOOP" 2040 64)"
	expect_eq "$on: beyond the end is EIO" "Input/output error" "$(read_at "$LOOP" 3072 8)"
	dd if="$DATA/data" of="$LOOP" bs=64k skip=24 seek=24 count=1 oflag=direct status=none
	expect_eq "$on: a write beyond grows the image" $((25 * 65536)) "$(stat --format=%s "$IMAGE")"
	uncache "$LOOP"
	expect_ok "$on: what was cut off reads as zero then" \
		cmp --ignore-initial=$((1048576 + 2048)):0 --bytes=$((524288 - 2048)) "$LOOP" /dev/zero
	detach "$LOOP"
done
