#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The system goes to sleep, and wakes up, with I/O on a device and LOOP_CONFIGUREs that fail beside it (F27): no block is lost.
# While a freezer is at work nothing is tried. By the kernel's test mode "freezer", which freezes tasks, kernel threads and
# freezable workqueues: with "devices" or more the guest would lose its root, which is on 9p.

. "$(dirname "$0")/lib.sh"

plan 13

grep --quiet freezer /sys/power/pm_test || skip_all "the kernel has no test modes of suspending"
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

sleeps() {
	local i

	for ((i = 0; i < 3; i++)); do
		echo freeze >/sys/power/state || return
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
