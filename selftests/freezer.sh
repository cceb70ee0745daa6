#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The system goes to sleep, and wakes up, with I/O on a device and LOOP_CONFIGUREs that fail beside it (F27): no block is lost.
# While a freezer is at work nothing is tried, and when it has done its work no command is carried out, of hundreds that wait
# for a worker (F83). By the kernel's test mode "freezer", which freezes tasks, kernel threads and freezable workqueues, as for
# hibernation: with "devices" or more the guest would lose its root, which is on 9p.

. "$(dirname "$0")/lib.sh"

grep --quiet freezer /sys/power/pm_test || skip_all "the kernel has no test modes of suspending"

plan 18

DELAY=/sys/module/suspend/parameters/pm_test_delay
SAVED_DELAY=$(<$DELAY)
restore() {
	echo none >/sys/power/pm_test
	echo "$SAVED_DELAY" >$DELAY
}
defer restore
echo freezer >/sys/power/pm_test
echo 1 >$DELAY

successes() {
	cat /sys/power/suspend_stats/success
}

sleep_once() {
	echo freeze >/sys/power/state
}

sleeps() {
	local i

	for ((i = 0; i < 3; i++)); do
		sleep_once || return
		sleep 0.3
	done
}

# load: I/O, every block checked, until $TMP/enough is there
load() {
	until [ -e "$TMP/enough" ]; do
		fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --rw=randwrite --bs=4k --size=4M || return
	done
}

failing_configures() {
	until [ -e "$TMP/enough" ]; do
		ioctl configure "$LOOP" file="$IMAGE"
		ioctl configure "$1" file=77
	done | sort --unique
}

lower ext4
head --bytes=4M /dev/urandom >"$DATA/data"
for dio in off on; do
	on="direct I/O $dio"
	image ext4 16M
	need_attach "$IMAGE" --direct-io=$dio
	dd if="$DATA/data" of="$LOOP" bs=1M seek=8 oflag=direct status=none
	rm -f "$TMP/enough"
	load >"$TMP/load" 2>&1 &
	loader=$!
	failing_configures "$(losetup --find)" >"$TMP/errors" &
	before=$(successes)
	expect_ok "$on: asleep and awake again" sleeps
	expect_eq "$on: three times" 3 $(($(successes) - before))
	touch "$TMP/enough"
	wait $loader
	expect_eq "$on: no block is lost" 0 $?
	wait
	expect_eq "$on: LOOP_CONFIGURE failed as it should" "EBADF EBUSY" "$(xargs <"$TMP/errors")"
	detach "$LOOP"
	expect_ok "$on: what was written before is in the file" cmp "$DATA/data" <(tail --bytes=+8388609 "$IMAGE" | head --bytes=4M)
done

# A frozen cgroup of version 1, and be it empty, sets the same mark in the kernel, for as long as one likes.
group=$TMP/freezer/group
thaw() {
	[ ! -d "$group" ] || {
		echo THAWED >"$group/freezer.state"
		rmdir "$group"
	}
}
reads() {
	dd if="$LOOP" of="$TMP/read" bs=4k count=64 skip=2048 iflag=direct status=none &&
		cmp --bytes=262144 "$TMP/read" "$DATA/data"
}
not_tried() {
	loop_attr "$LOOP" not_tried_freezer
}

image ext4 16M
dd if="$DATA/data" of="$IMAGE" bs=1M seek=8 conv=notrunc,fsync status=none
need_attach "$IMAGE" --direct-io=on
mount_at none freezer -t cgroup -o freezer || bail "no freezer of cgroup version 1"
mkdir "$group"
defer thaw
echo FROZEN >"$group/freezer.state"
expect_ok "a frozen cgroup: reads are right" reads
rust_only "a frozen cgroup: none of them was tried" ||
	expect_num "a frozen cgroup: none of them was tried" "$(not_tried)" -ge 64
before=0
[ "$DRIVER" = loop ] || before=$(not_tried)
thaw
rust_only "thawed: they are tried" || {
	reads
	expect_eq "thawed: they are tried" 0 $(($(not_tried) - before))
}

# Hundreds of commands that wait for a worker, as those at work wait for the disk below: each is a WRITE of a sector, for which
# the rest of its page is read. Once all is frozen, the disk gets no read for the device, and no command ends.
DM=selftest-$$
TRACE=/sys/kernel/tracing
no_delay() {
	[ ! -e "/dev/mapper/$DM" ] || await dmsetup remove "$DM"
}
quiet_trace() {
	echo 0 >"$TRACE/events/block/enable"
	echo 0 >"$TRACE/events/power/suspend_resume/enable"
	echo >"$TRACE/trace"
}
waiting() {
	awk '{ exit $2 < 600 }' "/sys/block/${LOOP#/dev/}/inflight"
}
# in_window PATTERN: events from the freezing of all on, to the beginning of the thaw
in_window() {
	sed -n '/suspend_resume: freeze_processes\[0\] end/,/suspend_resume: thaw_processes\[0\] begin/p' "$TMP/trace" |
		grep --count "$1"
}
sectors_written() {
	# shellcheck disable=SC2016 # perl's
	perl -e 'print "\x5a" x 512, "\0" x 3584 for 1 .. 2048'
}

release
restore
defer restore
echo freezer >/sys/power/pm_test
echo 1 >$DELAY
[ "$DRIVER" = loop ] || {
	defer reload_default
	reload hw_queue_depth=1024
}
mountpoint --quiet "$TRACE" || mount_at tracefs trace -t tracefs
mountpoint --quiet "$TRACE" || TRACE=$TMP/trace
lower bdev
defer no_delay
dmsetup create "$DM" <<<"0 $((64 << 11)) delay $SPARE 0 500 $SPARE 0 0" || bail "no dm-delay"
need_attach "/dev/mapper/$DM"
udevadm settle
uncache "/dev/mapper/$DM"
defer quiet_trace
echo >"$TRACE/trace"
for event in block/block_rq_issue block/block_rq_complete power/suspend_resume; do
	echo 1 >"$TRACE/events/$event/enable"
done
fio --name=sectors --filename="$LOOP" --direct=1 --ioengine=libaio --iodepth=1024 --bs=512 --rw=write:3584 --size=8M --io_size=1M \
	--buffer_pattern=0x5a5a5a5a --allow_file_create=0 >"$TMP/sectors" 2>&1 &
writer=$!
if [ "$DRIVER" = loop ]; then
	# Its worker carries out the whole list before it lets itself be frozen.
	for point in "commands wait" "asleep" "no command ends" "no page is read"; do
		rust_only "frozen: $point"
	done
else
	expect_ok "frozen: commands wait for a worker" await waiting
	expect_ok "frozen: asleep and awake again" sleep_once
	cat "$TRACE/trace" >"$TMP/trace"
	expect_eq "frozen: no command of the device ends, in a second" "1 0" \
		"$(in_window 'freeze_processes.*end') $(in_window "block_rq_complete: 7,${LOOP#/dev/loop} ")"
	expect_eq "frozen: none is carried out on the disk below" 0 \
		"$(in_window "block_rq_issue: $(stat --format=%Hr,%Lr "$SPARE") R")"
fi
wait $writer
# Read past the page cache: where udev has the device open, and has read while these writes were under way, it has the old data.
expect_ok "thawed: all of them are done" cmp <(dd if="$LOOP" bs=1M count=8 iflag=direct status=none) <(sectors_written)
detach "$LOOP"
