#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One task submits to a loop device and to the disk below it at once, and the disk has hardly any tags: a request of the
# disk that waits in the task's plug holds a tag that a try would wait for, and no one would flush the plug. And a plug that
# overflows is flushed by whoever submits next, which may be the file system below with its locks held.

. "$(dirname "$0")/lib.sh"

plan 7

remove_disk() {
	await modprobe --remove null_blk
}

modprobe null_blk nr_devices=1 gb=1 memory_backed=1 hw_queue_depth=4 submit_queues=1 || bail "no null_blk"
defer remove_disk
sfdisk --quiet /dev/nullb0 <<<$'label: gpt\nsize=400M\nsize=400M' || bail "no partitions on null_blk"
udevadm settle
mkfs xfs /dev/nullb0p1 >"$TMP/out" || bail "no XFS on null_blk"
mount_at /dev/nullb0p1 lower
IMAGE=$TMP/lower/image
dd if=/dev/zero of="$IMAGE" bs=1M count=32 conv=fsync status=none
[ "$DRIVER" = loop ] || {
	defer reload_default
	reload nowait=always
}
need_attach "$IMAGE" --direct-io=on

both() {
	fio --name=both --filename="$LOOP:/dev/nullb0p2" --allow_file_create=0 --direct=1 --bs=8k --filesize=32M --io_size=16M \
		--iodepth=32 --iodepth_batch=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16 "$@"
}
for engine in libaio io_uring; do
	for rw in randwrite randread; do
		expect_ok "$engine, $rw on both" both --ioengine=$engine --rw=$rw
	done
done
rust_only "tries are refused" || expect_num "tries are refused" "$(loop_attr "$LOOP" not_tried_plug)" -gt 0

detach "$LOOP"
need_attach "$IMAGE" --direct-io=on
batch() {
	fio --name=batch --filename="$LOOP" --allow_file_create=0 --direct=1 --bs=4k --size=16M --rw=randread --ioengine=libaio \
		--iodepth="$1" --iodepth_batch="$1" --iodepth_batch_complete_min="$1" --io_size=4M >"$TMP/out" || bail "fio fails"
}
batch 16
rust_only "a batch of 16" || expect_eq "a batch of 16: none refused" 0 "$(loop_attr "$LOOP" not_tried_plug)"
batch 64
rust_only "a batch of 64" || expect_num "a batch of 64: refused when the plug overflows" "$(loop_attr "$LOOP" not_tried_plug)" -gt 0
detach "$LOOP"
