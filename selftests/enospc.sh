#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A full lower file system (F11): the writer sees ENOSPC, what was acknowledged is stored, and when there is room again
# writing goes on.

. "$(dirname "$0")/lib.sh"

plan 24

# fill DEVICE: writes $DATA/data over it until that fails; the number of full 64k blocks that were acknowledged in $WRITTEN.
fill() {
	local said

	said=$(dd if="$DATA/data" of="$1" bs=64k oflag=direct 2>&1)
	WRITTEN=$(sed -n 's/^\([0-9]*\)+.* records out$/\1/p' <<<"$said")
	SAID=$(grep -o 'No space left on device' <<<"$said")
}

# rest: writes what the failure left out
rest() {
	dd if="$DATA/data" of="$1" bs=64k skip="$WRITTEN" seek="$WRITTEN" oflag=direct
}

head --bytes=48M /dev/urandom >"$DATA/data"
for kind in ext4 xfs btrfs tmpfs; do
	for dio in off on; do
		on="$kind, direct I/O $dio"
		if [ $kind = tmpfs ]; then
			lower $kind -o size=16M
		else
			lower $kind
			fallocate --length $(($(findmnt --bytes --noheadings --output AVAIL "$LOWER") - (16 << 20))) "$LOWER/filler"
			sync --file-system "$LOWER"
		fi
		image $kind 128M
		need_attach "$IMAGE" --direct-io=$dio
		fill "$LOOP"
		expect_eq "$on: the writer is told" "No space left on device" "$SAID"
		if [ $kind = tmpfs ]; then
			mount -o remount,size=128M "$LOWER"
		else
			rm "$LOWER/filler"
			sync --file-system "$LOWER"
		fi
		expect_ok "$on: with room again writing goes on" rest "$LOOP"
		expect_ok "$on: what was acknowledged is there" cmp "$DATA/data" "$LOOP" --bytes=48M
		detach "$LOOP"
		release
	done
done
