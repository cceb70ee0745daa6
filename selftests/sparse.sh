#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Random writes of 4 KiB, 16 deep, over a sparse image (F9): a write that needs an allocation cannot be tried with success, so
# that auto stops trying, and tries again when there is nothing left to allocate. How fast that is, is the benchmarks' part.

. "$(dirname "$0")/lib.sh"

plan 14

WRITES=4096

# writes: each block of the image once, in an order that is the same each time
writes() {
	fio_verify "$LOOP" --ioengine=io_uring --iodepth=16 --rw=randwrite --bs=4k --size=16M --randseed=9
}

# share COUNTER...: of all writes, in per cent, since the binding
share() {
	local name sum=0

	for name; do
		sum=$((sum + $(loop_attr "$LOOP" "$name")))
	done
	echo $((sum * 100 / WRITES))
}

# overwrite: the image of the last one, with nothing to allocate any more, in the same binding, as another one begins anew. One
# at a time, as nothing is tried beside a write that waits.
overwrite() {
	local before

	expect_num "$on: then tries are rare" "$(loop_attr "$LOOP" write_level)" -ge 4
	before=$(share inline_done inline_queued)
	# No try succeeds where a page of the file is cached, as the checksum leaves all of them.
	uncache "$IMAGE"
	fio_verify "$LOOP" --ioengine=psync --rw=randwrite --bs=4k --size=16M --do_verify=0 >"$TMP/out"
	expect_num "$on: overwriting is tried again, per cent" $(($(share inline_done inline_queued) - before)) -ge 80
}

for kind in ext4 xfs; do
	# The first write of each tick of the clock sets the time stamp, which only XFS with lazytime does without waiting.
	lower $kind -o lazytime
	for mode in always auto; do
		on="$kind, $mode"
		image $kind 16M
		need_attach "$IMAGE" --direct-io=on
		udevadm settle
		[ "$DRIVER" = loop ] || echo $mode >"/sys/block/${LOOP#/dev/}/loop/nowait"
		expect_ok "$on: what is written is right" writes
		if [ $mode = always ]; then
			# Which shows that these are writes of which the others ought not to be tried.
			rust_only "$on: hardly any is done without a work item" ||
				expect_num "$on: hardly any is done without a work item, per cent" "$(share inline_again)" -ge 90
		else
			# One of 64 at last, more on the way there.
			rust_only "$on: few are tried" || expect_num "$on: few are tried, per cent" "$(share inline_again)" -le 5
		fi
		sync "$LOOP"
		expect_eq "$on: and in the file" "$(checksum "$IMAGE")" "$(checksum "$LOOP")"
		# On ext4 it would be up to the machine's speed how many are overwritten within a tick.
		if [ "$on" = "xfs, auto" ]; then
			if [ "$DRIVER" = loop ]; then
				rust_only "$on: then tries are rare"
				rust_only "$on: overwriting is tried again"
			else
				overwrite
			fi
		fi
		detach "$LOOP"
	done
	release
done
