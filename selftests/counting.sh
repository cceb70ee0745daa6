#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every command is counted, once, with several CPUs at it and the mode changing meanwhile (F14): what the device's counters add
# up to is what the block layer has counted. The load is also what KCSAN needs, much of one path on two CPUs.

. "$(dirname "$0")/lib.sh"

[ "$DRIVER" = rust_loop ] || skip_all "rust_loop's counters"

plan 9

# Commands of each of four jobs.
EACH=3000

# commands: READs and WRITEs that have ended, by the block layer; flushes are never tried, and counted.
commands() {
	awk '{ print $1 + $5 + $16 }' "/sys/block/${LOOP##*/}/stat"
}

counted() {
	echo $(($(inline "$LOOP") + $(loop_attr "$LOOP" punted)))
}

# not_inline: the sum of all reasons, and of the tries that came back
not_inline() {
	local file sum

	sum=$(loop_attr "$LOOP" inline_again)
	for file in "/sys/block/${LOOP##*/}/loop/not_tried_"*; do
		sum=$((sum + $(<"$file")))
	done
	echo "$sum"
}

# change_mode: until it is killed
change_mode() {
	while true; do
		for mode in always never reads auto; do
			echo $mode >"/sys/block/${LOOP##*/}/loop/nowait"
		done
	done
}

# load RW ENGINE: four jobs
load() {
	fio --name=load --filename="$LOOP" --allow_file_create=0 --rw="$1" --bs=4k --size=32M --numjobs=4 --number_ios=$EACH \
		--ioengine="$2" --iodepth=16 --direct=1 --group_reporting >"$TMP/fio"
}

# expect_counted NAME RW ENGINE: that it was a load, of which some commands may have been merged, and that all were counted
expect_counted() {
	local name=$1 before_commands before_counted

	udevadm settle
	before_commands=$(commands)
	before_counted=$(counted)
	load "$2" "$3" || bail "fio has failed: $(<"$TMP/fio")"
	udevadm settle
	expect_num "$name: commands" "$(($(commands) - before_commands))" -ge $((EACH * 2))
	expect_num "$name: as many counted" "$(($(counted) - before_counted))" -eq $(($(commands) - before_commands))
}

lower xfs
image xfs 32M
dd if=/dev/urandom of="$IMAGE" bs=1M count=32 conv=notrunc,fsync status=none
need_attach "$IMAGE" --direct-io=on
expect_counted "direct reads" randread libaio
expect_counted "direct reads and writes" randrw libaio
change_mode &
changing=$!
expect_counted "in changing modes" randrw libaio
kill $changing
wait $changing
expect_num "punted is the sum of its reasons" "$(not_inline)" -eq "$(loop_attr "$LOOP" punted)"
detach "$LOOP"

need_attach "$IMAGE"
expect_counted "buffered reads, cached" randread psync
