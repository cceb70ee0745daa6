#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Letting go while the device is in use: a detach under I/O waits for the last close and loses nothing (F20), and adding,
# opening, closing and removing one index from many sides leaves nothing behind (F28).

. "$(dirname "$0")/lib.sh"

plan 8

IMAGE=$DATA/image
head --bytes=1M /dev/urandom >"$DATA/pattern"

# F20: dd's close is the last one, or losetup's, or udev's. In-tree, if losetup has the device open when dd closes it, what
# dd wrote is still in the page cache when LOOP_CLR_FD makes all requests fail.
racing_close() {
	local i

	for ((i = 0; i < 25; i++)); do
		rm -f "$IMAGE"
		truncate --size 1M "$IMAGE"
		attach "$IMAGE" --direct-io="$1" || return
		dd if="$DATA/pattern" of="$LOOP" bs=64k 2>"$TMP/dd" &
		losetup --detach "$LOOP"
		wait $!
		case $? in
		0) await unbound "$LOOP" && cmp "$DATA/pattern" "$IMAGE" || return ;;
		# Too late: the device was let go before dd opened it.
		*) grep -q 'failed to open\|No space left' "$TMP/dd" && await unbound "$LOOP" || return ;;
		esac
	done
	cat "$TMP/dd"
}
for dio in off on; do
	in_tree_fault "a buffered writer's close against detach, direct I/O $dio" ||
		expect_ok "a buffered writer's close against detach, direct I/O $dio" racing_close $dio
done

detach_under_io() {
	local fio status

	truncate --size 16M "$IMAGE"
	attach "$IMAGE" --direct-io="$1" || return
	exec 9<"$LOOP"
	fio_verify "$LOOP" --ioengine=io_uring --iodepth=32 --rw=randwrite --bs=4k --size=16M &
	fio=$!
	await under_io
	losetup --detach "$LOOP" || return
	bound "$LOOP" || return
	exec 9<&-
	wait $fio || return
	await unbound "$LOOP"
}

under_io() {
	local stat

	read -ra stat <"/sys/block/${LOOP#/dev/}/stat"
	[ "${stat[4]}" -gt 50 ]
}

for dio in off on; do
	expect_ok "detach under fio, direct I/O $dio" detach_under_io $dio
	expect_ok "its data is in the image, direct I/O $dio" \
		fio_verify "$IMAGE" --rw=randwrite --bs=4k --size=16M --verify_only
done

# F28
one_index() {
	local i

	for ((i = 0; i < 15; i++)); do
		ioctl "$@"
	done
}
errors() {
	sort --unique "$TMP"/race.* | grep --extended-regexp --invert-match '^([0-9]+|let go|held|EEXIST|ENODEV|EBUSY|open:.*)$'
}
one_index add /dev/loop-control index=60 >"$TMP/race.add" &
one_index remove /dev/loop-control index=60 >"$TMP/race.remove" &
one_index remove /dev/loop-control index=60 >"$TMP/race.again" &
one_index hold /dev/loop60 </dev/null >"$TMP/race.open" &
wait
udevadm settle
expect_eq "one index from four sides: no other error" "" "$(errors)"
ioctl add /dev/loop-control index=60 >"$TMP/out"
udevadm settle
expect_eq "then it can be removed" 0 "$(await ioctl remove /dev/loop-control index=60)"
