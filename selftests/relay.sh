#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The relay makes the tries of direct I/O if others are under way, and only then; what it has to wait for stops nobody else.

. "$(dirname "$0")/lib.sh"

[ "$DRIVER" = rust_loop ] || skip_all "rust_loop's relay"

plan 15

JOURNAL=selftest-journal-$$

# commands MODE DEPTH RW [OPTION]...: 2000 of them in this mode
commands() {
	local mode=$1 depth=$2 rw=$3

	shift 3
	echo "$mode" >"/sys/block/${LOOP##*/}/loop/nowait"
	fio --name=relay --filename="$LOOP" --allow_file_create=0 --direct=1 --bs=4k --rw="$rw" --ioengine=libaio \
		--iodepth="$depth" --number_ios=2000 --norandommap "$@" >"$TMP/fio" || bail "fio has failed: $(<"$TMP/fio")"
}

# relayed COMMAND...: how many have taken that way meanwhile
relayed() {
	local before

	before=$(loop_attr "$LOOP" relayed)
	"$@"
	echo $(($(loop_attr "$LOOP" relayed) - before))
}

# some_relayed RW: on one CPU and a fast disk there may be seldom two others under way.
some_relayed() {
	[ "$(relayed commands auto 16 "$1")" -gt 0 ]
}

mtime() {
	stat --format=%.9Y "$IMAGE"
}

lower xfs
image xfs 32M
dd if=/dev/urandom of="$IMAGE" bs=1M count=32 conv=notrunc,fsync status=none
need_attach "$IMAGE" --direct-io=on
udevadm settle
expect_eq "one at a time: none is relayed" 0 "$(relayed commands auto 1 randread)"
expect_ok "many at once: some are relayed" await some_relayed randread
for mode in always reads never; do
	expect_eq "nowait=$mode: none is relayed" 0 "$(relayed commands "$mode" 16 randread)"
done
new_cgroup
expect_eq "of a cgroup: none is relayed" 0 "$(relayed within "$CGROUP" commands auto 16 randread)"

# The first WRITE of each tick finds the file's times out of date: the relay does not leave it to a work item.
before=$(mtime)
stamped() {
	some_relayed randwrite && [ "$(loop_attr "$LOOP" stamped)" -gt 0 ]
}
expect_ok "many WRITEs at once: some are relayed" await some_relayed randwrite
expect_ok "the relay brings the file's times up to date" await stamped
expect_ok "and they have changed" test "$(mtime)" != "$before"
expect_ok "the data is right" fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --bs=4k --rw=randwrite --size=16M
expect_num "commands that came back are none of it" "$(($(inline "$LOOP") + $(loop_attr "$LOOP" inline_again)))" -ge \
	"$(loop_attr "$LOOP" relayed)"
detach "$LOOP"
need_attach "$IMAGE"
expect_eq "a buffered device: none is relayed" 0 "$(relayed commands auto 16 randread)"
detach "$LOOP"

# The journal of the file system below hangs while it writes the inode: the next change of the file's times waits for that, in
# the relay. READs go on all the same.
release
table="0 131072 linear $SPARE 0"
dmsetup create "$JOURNAL" --table "$table" || bail "no disk for a journal"
defer await dmsetup remove "$JOURNAL"
dmsetup create "$JOURNAL-data" --table "0 1048576 linear $SPARE 131072" || bail "no disk beside it"
defer await dmsetup remove "$JOURNAL-data"
if ! {
	mke2fs -q -F -O journal_dev -b 4096 "/dev/mapper/$JOURNAL" &&
		mkfs ext4 "/dev/mapper/$JOURNAL-data" -b 4096 -J "device=/dev/mapper/$JOURNAL" >"$TMP/mkfs" &&
		mount_at "/dev/mapper/$JOURNAL-data" journal
}; then
	bail "no file system with a journal elsewhere"
fi
IMAGE=$TMP/journal/image
dd if=/dev/urandom of="$IMAGE" bs=1M count=32 conv=fsync status=none
need_attach "$IMAGE" --direct-io=on
udevadm settle
commands auto 16 randwrite
udevadm control --stop-exec-queue
dmsetup --noudevsync suspend --nolockfs --noflush "$JOURNAL"
sync --file-system "$IMAGE" &
syncing=$!
sleep 1
commands auto 16 randwrite &
writing=$!
waits_for_the_journal() {
	local stack

	for stack in /proc/[0-9]*/stack; do
		grep --silent --no-messages 'loop_cmd.*relay' "$stack" && grep --silent --no-messages file_update_time "$stack" && return
	done
	return 1
}
expect_ok "the relay changes the file's times" await waits_for_the_journal
sleep 1
expect_ok "which hangs" kill -0 $writing
(commands auto 16 randread) &
reading=$!
read_all() {
	! kill -0 $reading 2>/dev/null
}
expect_ok "READs go on" await read_all
dmsetup --noudevsync resume "$JOURNAL"
udevadm control --start-exec-queue
wait $writing $reading $syncing
detach "$LOOP"
