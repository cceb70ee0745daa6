#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The lower file system is frozen and thawed while a sparse image is written (F5, F11): writes wait, reads go on, nothing is lost.
# In-tree a command that waits holds up all those behind it.

. "$(dirname "$0")/lib.sh"

plan 10

freezes() {
	local fio

	fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --rw=randwrite --bs=4k --size=16M &
	fio=$!
	while kill -0 $fio 2>/dev/null; do
		fsfreeze --freeze "$LOWER" && fsfreeze --unfreeze "$LOWER" || return
		sleep 0.05
	done
	wait $fio
}

for kind in ext4 xfs; do
	lower $kind
	defer fsfreeze --unfreeze "$LOWER"
	for dio in off on; do
		image $kind 32M
		need_attach "$IMAGE" --direct-io=$dio
		expect_ok "$kind, direct I/O $dio: frozen and thawed under fio" freezes
		[ $dio = on ] || {
			detach "$LOOP"
			continue
		}
		fsfreeze --freeze "$LOWER"
		dd if=/dev/zero of="$LOOP" bs=4k count=1 seek=5000 oflag=direct status=none &
		writer=$!
		in_tree_fault "$kind: frozen: reads go on" ||
			expect_ok "$kind: frozen: reads go on" dd if="$LOOP" of="$TMP/out" bs=64k count=64 iflag=direct status=none
		expect_ok "$kind: frozen: the write waits" kill -0 $writer
		fsfreeze --unfreeze "$LOWER"
		expect_ok "$kind: thawed: it is done" wait $writer
		detach "$LOOP"
	done
	release
done
