#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What is below fails or is slow (F11): the right error for the right range, and it goes on after.

. "$(dirname "$0")/lib.sh"

plan 14

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
