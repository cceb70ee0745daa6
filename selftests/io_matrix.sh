#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Data integrity over every kind of backing, buffered and direct: fio with crc32c verification, by one request at a time
# and in batches (F8), of sizes from a block to what is split, and the image compared with the device at the end.

. "$(dirname "$0")/lib.sh"

plan 50

cell() {
	local kind=$1 dio=$2 on="$1, direct I/O $2" bs

	image "$kind" 32M
	need_attach "$IMAGE" --direct-io="$dio"
	bs=$(queue_attr "$LOOP" logical_block_size)
	expect_eq "$on: the mode asked for" "$([ "$dio" = on ] && echo 1 || echo 0)" "$(loop_attr "$LOOP" dio)"
	expect_ok "$on: sequential, mixed sizes, psync" \
		fio_verify "$LOOP" --ioengine=psync --rw=write --bssplit="4k/25:64k/25:100k/25:1m" --size=12M
	expect_ok "$on: random, single blocks and more, libaio by 16" \
		fio_verify "$LOOP" --ioengine=libaio --rw=randwrite --bssplit="$bs/30:4k/60:64k" --offset=8M --size=4M \
		--iodepth=32 --iodepth_batch=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16
	expect_ok "$on: random reads and writes, io_uring by 64" \
		fio_verify "$LOOP" --ioengine=io_uring --rw=randrw --bs=4k --offset=16M --size=8M \
		--iodepth=64 --iodepth_batch=64 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=64
	expect_eq "$on: the image holds what the device shows" "$(checksum "$LOOP" 32M)" "$(checksum "$IMAGE" 32M)"
	detach "$LOOP"
}

for kind in ext4 xfs btrfs tmpfs bdev; do
	lower $kind
	cell $kind off
	cell $kind on
	release
done
