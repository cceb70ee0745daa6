#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Trace events: a command's tries, why it goes to a work item, and its end with its error.

. "$(dirname "$0")/lib.sh"

TRACING=/sys/kernel/tracing
[ "$DRIVER" = rust_loop ] || skip_all "rust_loop only"
[ -d $TRACING/events/rust_loop ] || skip_all "this kernel has no trace events"

plan 6

stop_tracing() {
	echo 0 >$TRACING/events/rust_loop/enable
	: >$TRACING/trace
}
# events: of the device since the last call, without times; each sort once.
events() {
	sed -n "s/^.*: rust_loop_\(\w*\): $NUMBERS \(.*\)$/\1 \2/p" $TRACING/trace | sort --unique
	: >$TRACING/trace
}
# once DIRECTION SECTOR: one direct command of 4 KiB
once() {
	fio --name=once --filename="$LOOP" --allow_file_create=0 --direct=1 --rw="$1" --bs=4k --offset=$(($2 * 512)) --size=4k \
		>"$TMP/fio"
}

lower ext4
image ext4 16M
dd if=/dev/urandom of="$IMAGE" bs=1M count=8 conv=notrunc,fsync status=none
need_attach "$IMAGE" --direct-io=on
NUMBERS=$(tr -d '\n' <"/sys/block/${LOOP#/dev/}/dev" | tr : ,)
udevadm settle
# Reads of its own after each write would be told of too.
defer udevadm control --start-exec-queue
udevadm control --stop-exec-queue
defer stop_tracing
echo 1 >$TRACING/events/rust_loop/enable

once read 800
seen=$(events)
expect_ok "a read is tried" grep --quiet --extended-regexp '^try READ sector=800 bytes=4096 (done|queued)$' <<<"$seen"
expect_ok "and ends" grep --quiet --line-regexp 'complete READ sector=800 bytes=4096 error=0' <<<"$seen"

echo never >"/sys/block/${LOOP#/dev/}/loop/nowait"
once write 1600
expect_eq "not tried: why, and its end" "complete WRITE sector=1600 bytes=4096 error=0
punt WRITE sector=1600 bytes=4096 policy" "$(events)"

echo always >"/sys/block/${LOOP#/dev/}/loop/nowait"
once write 24000 # a hole
expect_eq "tried in vain" "complete WRITE sector=24000 bytes=4096 error=0
punt WRITE sector=24000 bytes=4096 again
try WRITE sector=24000 bytes=4096 again" "$(events)"

truncate --size 1M "$IMAGE"
once read 8000
expect_ok "an error" grep --quiet --line-regexp 'complete READ sector=8000 bytes=4096 error=-5' <<<"$(events)"

sync "$LOOP"
blockdev --flushbufs "$LOOP"
fio --name=flush --filename="$LOOP" --allow_file_create=0 --direct=1 --rw=write --bs=4k --size=4k --fsync=1 >"$TMP/fio"
expect_ok "a flush goes to a work item" grep --quiet '^punt FLUSH .* op$' <<<"$(events)"
