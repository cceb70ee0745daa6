#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One task submits to a loop device and to the disk below it by one plug. The disk has fewer tags than the plug has
# requests: a try that waited for a tag would wait for requests that its own task has not issued yet.

. "$(dirname "$0")/lib.sh"

plan 5

# settled PID: the process has ended. One that waits for itself cannot even be killed.
settled() {
	! kill -0 "$1"
}

# together ENGINE RW: both devices in one task, 16 requests to a plug
together() {
	fio --name=both --filename="$LOOP:${DISK}p2" --size=100M --io_size=16M --bs=8k --direct=1 --rw="$2" --ioengine="$1" \
		--iodepth=32 --iodepth_batch=16 --iodepth_batch_complete_min=8 --file_service_type=random \
		>"$TMP/fio" 2>&1 &
	await settled $! && wait $!
}

await modprobe --remove null_blk
modprobe null_blk nr_devices=1 hw_queue_depth=4 submit_queues=1 memory_backed=1 gb=1 irqmode=2 completion_nsec=200000 ||
	bail "no null_blk"
defer await modprobe --remove null_blk
DISK=/dev/nullb0
printf 'label: gpt\nsize=600M\nsize=300M\n' | sfdisk --quiet "$DISK" || bail "$DISK cannot be partitioned"
udevadm settle
mkfs xfs "${DISK}p1"
mount_at "${DISK}p1" lower
dd if=/dev/zero of="$TMP/lower/image" bs=1M count=128 oflag=direct status=none

if [ "$DRIVER" = rust_loop ]; then
	defer reload_default
	reload nowait=always || bail "cannot load with nowait=always"
fi
need_attach "$TMP/lower/image" --direct-io=on
for engine in libaio io_uring; do
	for rw in randwrite randread; do
		# A task that hangs keeps everything: there is nothing to clean up after it.
		expect_ok "$engine, $rw" together "$engine" "$rw" || exit 1
	done
done
rust_only "was not tried for it" || expect_num "was not tried for it" "$(loop_attr "$LOOP" not_tried_plug)" -gt 0
detach "$LOOP"
unmount "$TMP/lower"
