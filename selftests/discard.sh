#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Discard and write zeroes over every kind of backing: what they give back, what reads as zero, what is left alone; the
# advertised limits (F51); and a file system that cannot punch holes (F50).

. "$(dirname "$0")/lib.sh"

plan 54

# used FILE: KiB of storage it takes
used() {
	sync "$1"
	du --block-size=1K "$1" | cut -f 1
}

# zero DEVICE OFFSET_MIB LENGTH_MIB
zero() {
	uncache "$1"
	cmp --ignore-initial="$2M:0" --bytes="$3M" "$1" /dev/zero
}

# error_lines: of loop devices in the log
error_lines() {
	kernel_log | grep --count 'error.*loop[0-9]'
}

# limits KIND: granularity and the maximum are given both or neither
limits() {
	local granularity max

	granularity=$(queue_attr "$LOOP" discard_granularity)
	max=$(queue_attr "$LOOP" discard_max_bytes)
	expect_eq "$1: a granularity exactly if discard is advertised" $((max > 0)) $((granularity > 0))
}

# of_kind POINTS: whether the disk, if it is the backing, has discard and, for a discard that reads as zeroes, write zeroes
# (which a disk of User Mode Linux loses at the first one, if its file does not know them); skips that many points if not
of_kind() {
	local i

	[ $kind = bdev ] || return 0
	lower bdev
	[ "$(queue_attr "$SPARE" discard_max_bytes)" = 0 ] || [ "$(queue_attr "$SPARE" write_zeroes_max_bytes)" = 0 ] || return 0
	for ((i = 0; i < $1; i++)); do
		skip "$kind: discard" "$SPARE has none"
	done
	return 1
}

for kind in ext4 xfs btrfs tmpfs bdev; do
	of_kind 8 || continue
	lower $kind
	image $kind 16M
	head --bytes=16M /dev/urandom >"$DATA/data"
	dd if="$DATA/data" of="$IMAGE" bs=1M conv=notrunc,fsync status=none
	need_attach "$IMAGE" --direct-io=on
	limits $kind
	expect_num "$kind: discard is advertised" "$(queue_attr "$LOOP" discard_max_bytes)" -gt 0
	before=$(used "$IMAGE")
	expect_ok "$kind: discard" blkdiscard --offset 4M --length 4M "$LOOP"
	expect_ok "$kind: what was discarded reads as zero" zero "$LOOP" 4 4
	if [ $kind = bdev ]; then
		expect_eq "$kind: the granularity is the device's" "$(queue_attr "$SPARE" discard_granularity)" \
			"$(queue_attr "$LOOP" discard_granularity)"
	else
		expect_num "$kind: discard frees the image's blocks" $((before - $(used "$IMAGE"))) -ge 4096
	fi
	expect_ok "$kind: write zeroes" blkdiscard --zeroout --offset 10M --length 2M "$LOOP"
	expect_ok "$kind: what was zeroed reads as zero" zero "$LOOP" 10 2
	dd if=/dev/zero of="$DATA/data" bs=1M seek=4 count=4 conv=notrunc status=none
	dd if=/dev/zero of="$DATA/data" bs=1M seek=10 count=2 conv=notrunc status=none
	detach "$LOOP"
	expect_eq "$kind: the image holds the rest unchanged" "$(checksum "$DATA/data" 16M)" "$(checksum "$IMAGE" 16M)"
	release
done

# XFS writes to an open file that has become immutable since, but gives none of it back.
lower xfs
image xfs 16M
head --bytes=16M /dev/urandom >"$IMAGE"
need_attach "$IMAGE"
chattr +i "$IMAGE"
defer chattr -i "$IMAGE"
expect_ok "immutable: zeroing falls back to writing" blkdiscard --zeroout --offset 4M --length 4M "$LOOP"
expect_ok "immutable: what was zeroed reads as zero" zero "$LOOP" 4 4
release

# F50. vfat has fallocate but punches no holes, which only trying finds out; ramfs has none.
for kind in vfat ramfs; do
	lower $kind
	image $kind 16M
	head --bytes=16M /dev/urandom >"$IMAGE"
	need_attach "$IMAGE"
	limits $kind
	before=$(error_lines)
	expect_ok "$kind: mkfs goes well" mkfs ext4 "$LOOP"
	in_tree_fault "$kind: at the price of one error line" ||
		expect_num "$kind: at the price of one error line" $(($(error_lines) - before)) -le 1
	expect_ok "$kind: zeroing falls back to writing" blkdiscard --force --zeroout --offset 4M --length 4M "$LOOP"
	expect_ok "$kind: what was zeroed reads as zero" zero "$LOOP" 4 4
	blkdiscard --force --offset 8M --length 1M "$LOOP" 2>/dev/null
	expect_eq "$kind: after a refused discard none is advertised" "0 0" \
		"$(queue_attr "$LOOP" discard_max_bytes) $(queue_attr "$LOOP" discard_granularity)"
	detach "$LOOP"
	release
done
