#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What is below fails, is slow, or hangs (F11, F26): the right error for the right range, and it goes on after; a hanging
# device holds no other one up, and a task that waits for its lock can be killed.

. "$(dirname "$0")/lib.sh"

plan 19

DM=selftest-$$
SECTORS=$((64 << 11))

# table LINE...: a dm device of it, or another table for the one that is there
table() {
	if [ -e "/dev/mapper/$DM" ]; then
		dmsetup reload "$DM" && dmsetup suspend --nolockfs "$DM" && dmsetup resume "$DM"
	else
		dmsetup create "$DM"
	fi <<<"$(printf '%s\n' "$@")"
}
remove_table() {
	[ ! -e "/dev/mapper/$DM" ] || await dmsetup remove "$DM"
}
good="0 $SECTORS linear $SPARE 0"

# said COMMAND...: the error that it reports
said() {
	"$@" 2>&1 | grep --only-matching 'Input/output error' | sort --unique
}

lower bdev
defer remove_table
for dio in off on; do
	on="direct I/O $dio"
	table "$good" || bail "no device-mapper"
	head --bytes=8M /dev/urandom >"$DATA/data"
	need_attach "/dev/mapper/$DM" --direct-io=$dio
	dd if="$DATA/data" of="$LOOP" bs=1M oflag=direct status=none
	uncache "/dev/mapper/$DM"
	table "0 4096 linear $SPARE 0" "4096 2048 error" "6144 $((SECTORS - 6144)) linear $SPARE 6144"
	expect_ok "$on: before the bad range" cmp --bytes=2M "$LOOP" "$DATA/data"
	expect_eq "$on: reads of the bad range" "Input/output error" \
		"$(said dd if="$LOOP" of="$TMP/out" bs=64k skip=40 count=1 iflag=direct)"
	expect_eq "$on: writes of the bad range" "Input/output error" \
		"$(said dd if="$DATA/data" of="$LOOP" bs=64k seek=40 count=1 oflag=direct conv=fsync)"
	expect_ok "$on: after the bad range" cmp --ignore-initial=3M --bytes=1M "$LOOP" "$DATA/data"
	table "$good"
	dd if="$DATA/data" of="$LOOP" bs=1M oflag=direct status=none
	expect_ok "$on: the range is good again" cmp --bytes=8M "$LOOP" "$DATA/data"

	table "0 $SECTORS flakey $SPARE 0 0 1 1 error_writes"
	expect_eq "$on: all writes fail" "Input/output error" \
		"$(said dd if="$DATA/data" of="$LOOP" bs=64k count=1 oflag=direct conv=fsync)"
	table "0 $SECTORS delay $SPARE 0 5"
	expect_ok "$on: a slow device" fio_verify "$LOOP" --ioengine=libaio --iodepth=32 --rw=randwrite --bs=4k --size=1M
	detach "$LOOP"
	remove_table
done

# F26
table "$good"
need_attach "/dev/mapper/$DM" --direct-io=on
HUNG=$LOOP
truncate --size 4M "$DATA/other"
need_attach "$DATA/other"
dmsetup suspend --nolockfs "$DM"
dd if="$DATA/data" of="$HUNG" bs=64k count=4 oflag=direct status=none &
writer=$!
ioctl set-status64 "$HUNG" name=hung >"$TMP/status" &
setter=$!
expect_ok "a hanging device: another one works" fio_verify "$LOOP" --rw=randwrite --bs=4k --size=1M
expect_ok "a hanging device: another one can be let go" detach "$LOOP"
ioctl get-status64 "$HUNG" >"$TMP/out" &
waiter=$!
disown $waiter
gone() {
	! kill -0 "$1" 2>/dev/null
}
kill -KILL $waiter
expect_ok "a hanging device: who waits for it can be killed" await gone $waiter
dmsetup resume "$DM"
wait $writer
expect_eq "resumed: the writer is done" 0 $?
wait $setter
expect_eq "resumed: so is the change" 0 "$(cat "$TMP/status")"
detach "$HUNG"
