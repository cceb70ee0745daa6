#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Requests that are submitted together (F8): what the file submits for them goes to the disk below together too, and a
# batch in which each command takes another way keeps its data.

. "$(dirname "$0")/lib.sh"

plan 9

IMAGE=$DATA/image
dd if=/dev/urandom of="$IMAGE" bs=1M count=32 conv=fsync status=none
need_attach "$IMAGE" --direct-io=on
queue=/sys/block/${LOOP#/dev/}/queue

# merged_below: requests that the disk below has merged so far, reads and writes
merged_below() {
	awk '{ print $2 + $6 }' "/sys/block/${WORK_DISK#/dev/}/stat"
}

# batches RW ENGINE: 2048 blocks of 4 KiB in a row, 16 in one system call, none of them merged above; the merges of the disk
# below in $MERGES
batches() {
	local before

	before=$(merged_below)
	fio --name=batch --filename="$LOOP" --allow_file_create=0 --direct=1 --bs=4k --size=8M --rw="$1" --ioengine="$2" \
		--iodepth=16 --iodepth_batch=16 --iodepth_batch_complete_min=16 >"$TMP/out" || return
	MERGES=$(($(merged_below) - before))
}

echo 2 >"$queue/nomerges"
for engine in libaio io_uring; do
	expect_ok "$engine: reads in batches" batches read $engine
	rust_only "$engine: merged below" || expect_num "$engine: merged below, of 2048" "$MERGES" -gt 1024
done
echo 0 >"$queue/nomerges"

# Tries, work items and errors side by side in one batch: all kinds of commands, with data that is checked.
expect_ok "all kinds of commands in batches" fio --name=mixed --filename="$LOOP" --allow_file_create=0 --direct=1 \
	--rw=randrw --bsrange=4k-64k --bs_unaligned=0 --blockalign=4k --size=16M --io_size=32M --ioengine=libaio --iodepth=16 \
	--iodepth_batch=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16 --fsync=8 --verify=crc32c \
	--verify_fatal=1 --serialize_overlap=1
detach "$LOOP"

# A batch of a mounted file system under a scheduler: none of it is dispatched as a batch.
need_attach "$IMAGE"
echo mq-deadline >"/sys/block/${LOOP#/dev/}/queue/scheduler"
expect_ok "with a scheduler" fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --iodepth_batch=16 --bs=4k --rw=randwrite --size=4M
echo none >"/sys/block/${LOOP#/dev/}/queue/scheduler"
detach "$LOOP"

# Past the end of a file that has shrunk: some commands of a batch fail, and only these.
truncate --size 4M "$IMAGE"
truncate --size 8M "$IMAGE"
need_attach "$IMAGE" --direct-io=on
truncate --size 4M "$IMAGE"
errors=$(fio --name=errors --filename="$LOOP" --allow_file_create=0 --direct=1 --bs=4k --size=8M --rw=read --ioengine=libaio \
	--iodepth=16 --iodepth_batch=16 --iodepth_batch_complete_min=16 --continue_on_error=read --output-format=json 2>"$TMP/err" |
	sed -n '/^{/,$p' | jq '.jobs[0].total_err')
expect_eq "commands past the end of the file fail" 1024 "$errors"
expect_ok "and those before it do not" cmp --bytes=4M "$LOOP" "$IMAGE"
expect_eq "and no command is left" 0 "$(awk '{ print $9 }' "/sys/block/${LOOP#/dev/}/stat")"
detach "$LOOP"
