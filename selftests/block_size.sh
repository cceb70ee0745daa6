#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# LOOP_SET_BLOCK_SIZE, over dirty pages too (F32), and a backing device of 4096-byte sectors (F42), where direct I/O needs blocks at least as large.

. "$(dirname "$0")/lib.sh"

plan 29

IMAGE=$DATA/image
head --bytes=1M /dev/urandom >"$IMAGE"
cp "$IMAGE" "$DATA/expected"
need_attach "$IMAGE"

for size in 4096 1024 65536 512; do
	too_large "to $size" $size || expect_eq "to $size" "0 $size" \
		"$(ioctl set-block-size "$LOOP" size=$size) $(queue_attr "$LOOP" logical_block_size)"
done
for size in 1 256 513 131072 0x7fffffff; do
	expect_error "not to $size" EINVAL ioctl set-block-size "$LOOP" size=$size
done
expect_eq "refused, it stays" 512 "$(blockdev --getss "$LOOP")"
udevadm settle
hold "$LOOP" excl
expect_error "not under an exclusive opener" EBUSY ioctl set-block-size "$LOOP" size=4096
let_go
expect_ok "the data is there" cmp "$DATA/expected" "$LOOP"

# What is dirty gets out before.
head --bytes=64K /dev/urandom >"$DATA/pattern"
dd if="$DATA/pattern" of="$DATA/expected" bs=64K seek=1 conv=notrunc status=none
exec 9<>"$LOOP"
dd if="$DATA/pattern" of=/dev/fd/9 bs=64K seek=1 conv=notrunc status=none
expect_eq "over dirty pages" 0 "$(ioctl set-block-size 9 size=4096)"
exec 9>&-
expect_ok "which show" cmp "$DATA/expected" "$LOOP"
detach "$LOOP"
expect_ok "and are in the image" cmp "$DATA/expected" "$IMAGE"

# remove_disk: when the last close has let it go
remove_disk() {
	await modprobe --remove scsi_debug
}

find_disk() {
	DISK=$(find /sys/bus/pseudo/drivers/scsi_debug/ -follow -maxdepth 6 -path '*/block/sd*' -prune 2>/dev/null)
	DISK=/dev/${DISK##*/}
	[ -b "$DISK" ]
}

modprobe scsi_debug dev_size_mb=300 sector_size=4096 || bail "no scsi_debug"
defer remove_disk
await find_disk || bail "no disk of scsi_debug"
udevadm settle

# check ON FILE: blocks and direct I/O over a backing that needs 4096
check() {
	local on=$1 file=$2

	need_attach "$file" --direct-io=on
	expect_eq "$on: direct I/O from the start: its block size" "1 4096" \
		"$(loop_attr "$LOOP" dio) $(queue_attr "$LOOP" logical_block_size)"
	expect_ok "$on: direct I/O from the start: the data" fio_verify "$LOOP" --rw=randwrite --bs=4k --size=2M
	detach "$LOOP"
	need_attach "$file" --direct-io=on --sector-size 512
	expect_eq "$on: with blocks of 512 it is off" "0 512" \
		"$(loop_attr "$LOOP" dio) $(queue_attr "$LOOP" logical_block_size)"
	expect_error "$on: with blocks of 512 it cannot be switched on" EINVAL ioctl set-direct-io "$LOOP" on=1
	expect_ok "$on: with blocks of 512: the data" fio_verify "$LOOP" --rw=randwrite --bs=512 --size=256K
	ioctl set-block-size "$LOOP" size=4096 >/dev/null
	expect_eq "$on: with blocks of 4096 it can" "0 1" "$(ioctl set-direct-io "$LOOP" on=1) $(loop_attr "$LOOP" dio)"
	ioctl set-block-size "$LOOP" size=512 >/dev/null
	expect_eq "$on: with blocks of 512 again it goes off" 0 "$(loop_attr "$LOOP" dio)"
	detach "$LOOP"
}

check "4k device" "$DISK"
mkfs xfs "$DISK" >/dev/null
mount_at "$DISK" disk
truncate --size 16M "$TMP/disk/image"
check "file on a 4k device" "$TMP/disk/image"
