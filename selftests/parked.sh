#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Buffered reads of what is not cached: while the disk below keeps them waiting they keep no workers (F82), and when it
# answers, or fails, each gets its own data or its error.

. "$(dirname "$0")/lib.sh"

plan 15

DM=selftest-$$
SECTORS=$((512 << 11))
DEPTH=64
DELAY=8000 # milliseconds; in a suspended dm device a readahead would fail, rather than wait

# table TARGET: what lies below, from now on.
table() { # without asking a file system above, whose disk may fail
	dmsetup --noudevsync suspend --nolockfs "$DM" && dmsetup load "$DM" <<<"0 $SECTORS $1" && dmsetup --noudevsync resume "$DM"
}
blocked_workers() {
	pgrep --runstates D --count '^kworker'
}
all_in_flight() {
	awk -v depth=$DEPTH '{ exit $1 < depth }' "/sys/block/${LOOP#/dev/}/inflight"
}
read_cold() { # once the whole depth
	fio_verify "$LOOP" --rw=randread --bs=64k --ioengine=libaio --iodepth=$DEPTH --io_size=$((DEPTH * 64))K >"$TMP/fio" 2>&1
}

for kind in ext4 xfs bdev; do
	# udevd would look at the slow disk at every change of that, and be waited for.
	defer udevadm control --start-exec-queue
	udevadm control --stop-exec-queue
	lower bdev
	dmsetup --noudevsync create "$DM" <<<"0 $SECTORS linear $SPARE 0" || bail "no device-mapper"
	defer await dmsetup --noudevsync remove "$DM"
	IMAGE=/dev/$(dmsetup info --columns --noheadings --options blkdevname "$DM")
	if [ $kind != bdev ]; then
		mkfs $kind "$IMAGE" >"$TMP/mkfs"
		mount_at "$IMAGE" lower || bail "no $kind"
		IMAGE=$TMP/lower/image
		truncate --size 32M "$IMAGE"
	fi
	need_attach "$IMAGE" --sizelimit 32M
	fio_verify "$LOOP" --rw=write --bs=64k --end_fsync=1 >"$TMP/fio" || bail "cannot fill the device: $(<"$TMP/fio")"
	uncache "$IMAGE"
	table "delay $SPARE 0 $DELAY" || bail "no dm-delay"
	before=$(blocked_workers)
	read_cold &
	reader=$!
	await all_in_flight || bail "no reads wait: $(<"$TMP/fio")"
	in_tree_fault "$kind: who waits for a page keeps no worker" ||
		expect_num "$kind: who waits for a page keeps no worker" $(($(blocked_workers) - before)) -le 2
	wait $reader
	expect_eq "$kind: they are answered: each has its own data" 0 $?
	rust_only "$kind: they were parked" || expect_num "$kind: they were parked" "$(loop_attr "$LOOP" parked)" -ge $DEPTH

	table "linear $SPARE 0"
	uncache "$IMAGE"
	table "error"
	expect_eq "$kind: the disk fails: EIO" "$(printf 'EIO\nEIO')" "$(
		for skip in 3 400; do
			dd if="$LOOP" of=/dev/null bs=64k count=1 skip=$skip iflag=direct 2>&1 |
				sed -n 's/.*: Input\/output error$/EIO/p'
		done
	)"
	table "linear $SPARE 0"
	expect_ok "$kind: it works again: the right data" read_cold
	release
done
