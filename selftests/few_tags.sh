#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A block device with hardly any tags below requests that are large and many (F3): its EAGAIN comes back through the
# completion, and each range is done once and whole.

. "$(dirname "$0")/lib.sh"

plan 5

queue=/sys/block/${SPARE##*/}/queue
lower bdev
old=$(<"$queue/nr_requests")
restore_tags() {
	echo "$old" >"$queue/nr_requests"
}
defer restore_tags
echo 4 >"$queue/nr_requests" || bail "the tags of $SPARE cannot be set"
need_attach "$SPARE" --direct-io=on

expect_ok "sequential, 1 MiB, 128 deep" \
	fio_verify "$LOOP" --ioengine=libaio --iodepth=128 --rw=write --bs=1M --size=64M
expect_ok "random, 1 MiB, 128 deep in each of two jobs" \
	fio_verify "$LOOP" --ioengine=io_uring --iodepth=128 --rw=randwrite --bs=1M --offset=64M --size=24M --numjobs=2 --offset_increment=24M
expect_ok "reads of what is there, 1 MiB, 128 deep" \
	fio --name=read --filename="$LOOP" --direct=1 --ioengine=libaio --iodepth=128 --rw=randread --bs=1M --size=112M
expect_eq "the device below holds the same" "$(checksum "$SPARE" 112M)" "$(checksum "$LOOP" 112M)"
rust_only "tries came back" || expect_num "tries came back" "$(loop_attr "$LOOP" inline_again)" -gt 0
detach "$LOOP"
