#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# I/O hangs below one device (F26): what need not wait for it does not; who waits for the device's lock can be killed, and
# nothing of his comes about; another device works in full; and all goes on when the I/O does.
#
# Three waits cannot be killed, with either driver, and nothing here tries to: that for the queue to be frozen (a new offset,
# another block size, direct I/O on or off), as blk_mq_freeze_queue() knows no way back; that for fsync() of the file below,
# which is its file system's; and that of a last close, and of a task for its own I/O, for the commands under way.

. "$(dirname "$0")/lib.sh"

plan 36

DM=selftest-$$
HUNG_TASK=/proc/sys/kernel/hung_task_timeout_secs
SAVED_HUNG_TASK=$(<$HUNG_TASK)

# By a process each, not by the function ioctl, whose process would be a shell that waits; on a descriptor that was opened
# before the I/O hangs. The last one is the opening itself.
requests=("get-status64 7" "set-status64 7 name=killed" "set-capacity 7" "set-direct-io 7 on=0" "set-block-size 7 size=4096"
	"clr-fd 7" "remove /dev/loop-control index=NUMBER" "hold /dev/loopNUMBER open=ro")

# udevd does not answer while a device that it shall look at hangs, and dmsetup would wait for it.
resume() {
	dmsetup --noudevsync resume "$DM"
	udevadm control --start-exec-queue
}
let_all_go() {
	[ ! -e "/dev/mapper/$DM" ] || {
		resume
		await dmsetup remove "$DM"
	}
	echo "$SAVED_HUNG_TASK" >$HUNG_TASK
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

# sleeps_in PID WHERE: a function, or a [module]; functions that take mutexes are not shown.
sleeps_in() {
	grep --quiet "$2" "/proc/$1/stack"
}

two_under_way() {
	awk '{ exit $1 + $2 < 2 }' "/sys/block/${HUNG#/dev/}/inflight"
}

# meanwhile COMMAND...: what it prints, if it ends while the I/O hangs
meanwhile() {
	"$@" >"$TMP/meanwhile" 2>&1 &
	disown $!
	await gone $! 2>&1 && cat "$TMP/meanwhile"
}

removed() {
	[ "$(meanwhile ioctl remove /dev/loop-control index=50)" = 0 ]
}

another_works() {
	truncate --size 4M "$DATA/other"
	attach "$DATA/other" &&
		fio_verify "$LOOP" --rw=randwrite --bs=4k --size=1M --end_fsync=1 &&
		ioctl get-status64 "$LOOP" &&
		ioctl set-status64 "$LOOP" offset=4096 &&
		losetup --detach "$LOOP" &&
		await unbound "$LOOP"
}

all_wait() {
	local request words

	pids=()
	for request in "${requests[@]}"; do
		read -ra words <<<"${request//NUMBER/$number}"
		"$SELFTESTS/ioctl.py" "${words[@]}" >"$TMP/waits" 2>&1 </dev/null &
		pids+=($!)
		disown $!
		await sleeps_in $! "\[$DRIVER\]" || {
			cat "/proc/$!/stack" "$TMP/waits"
			return 1
		}
	done
}

all_killed() {
	local pid

	kill -KILL "${pids[@]}" || return
	for pid in "${pids[@]}"; do
		await gone "$pid" || {
			cat "/proc/$pid/stack"
			return 1
		}
	done
}

file_is_right() {
	await unbound "$HUNG" && uncache "$IMAGE" && cmp --bytes=8M "$IMAGE" "$DATA/data"
}

# block NUMBER FILE: one of 64 KiB
block() {
	dd if="$2" bs=64k skip="$1" count=1 iflag=direct status=none
}

for kind in bdev ext4; do
	lower bdev
	defer let_all_go
	echo 0 >$HUNG_TASK # they hang on purpose, and longer on a slow machine
	dmsetup create "$DM" <<<"0 $((128 << 11)) linear $SPARE 0" || bail "no device-mapper"
	IMAGE=$(readlink -f "/dev/mapper/$DM")
	if [ $kind != bdev ]; then
		mkfs $kind "$IMAGE" >"$TMP/mkfs"
		mount_at "$IMAGE" lower || bail "no $kind"
		IMAGE=$TMP/lower/image
	fi
	head --bytes=8M /dev/urandom >"$DATA/data"
	head --bytes=64K /dev/urandom >"$DATA/new"
	dd if="$DATA/data" of="$IMAGE" bs=1M conv=fsync,notrunc status=none
	need_attach "$IMAGE" --direct-io=on
	HUNG=$LOOP number=${LOOP#/dev/loop}
	losetups_name=$(ioctl get-status64 "$HUNG" | sed 's/.* name=\(.*\) inode=.*/\1/')
	udevadm settle
	# It would open the device too, and be in the way of who opens it here.
	udevadm control --stop-exec-queue
	exec 7<>"$HUNG"

	dmsetup suspend --noflush --nolockfs "$DM"
	dd if="$DATA/new" of="$HUNG" bs=64k seek=32 oflag=direct status=none 7<&- &
	writer=$!
	block 16 "$HUNG" >"$TMP/read" 7<&- &
	reader=$!
	await two_under_way || bail "no I/O hangs"

	status=$(meanwhile ioctl get-status64 7)
	expect_eq "$kind: LOOP_GET_STATUS64 does not wait for I/O" "number=$number" "${status%% *}"
	expect_eq "$kind: nor does LOOP_SET_CAPACITY" 0 "$(meanwhile ioctl set-capacity 7)"
	in_tree_fault "$kind: nor does a new name" ||
		expect_eq "$kind: nor does a new name" 0 "$(meanwhile ioctl set-status64 7 name=hung)"

	# Who waits for the queue to be frozen has the lock.
	"$SELFTESTS/ioctl.py" set-status64 7 offset=0x100000 >"$TMP/setter" &
	setter=$!
	expect_ok "$kind: a new offset waits for the I/O" await sleeps_in $setter blk_mq_freeze_queue
	expect_eq "$kind: sysfs does not wait for the lock" "$IMAGE 0" \
		"$(loop_attr "$HUNG" backing_file) $(loop_attr "$HUNG" offset)"
	free=$(meanwhile ioctl get-free /dev/loop-control)
	expect_ok "$kind: nor does LOOP_CTL_GET_FREE" test "$free" -ge 0 -a "$free" != "$number"
	expect_eq "$kind: nor does LOOP_CTL_ADD of another" 50 "$(meanwhile ioctl add /dev/loop-control index=50)"
	expect_ok "$kind: nor does LOOP_CTL_REMOVE of another" await removed

	expect_ok "$kind: all others wait for the lock" all_wait
	# In-tree LOOP_CLR_FD waits for this device's lock with one held that is all devices'.
	in_tree_fault "$kind: another device works in full" ||
		expect_ok "$kind: another device works in full" another_works
	expect_ok "$kind: who waits for the lock can be killed" all_killed

	resume
	wait $writer
	writer=$?
	wait $reader
	expect_eq "$kind: resumed: writer and reader are done" "0 0" "$writer $?"
	expect_ok "$kind: what was read is right" cmp "$TMP/read" <(block 16 "$DATA/data")
	wait $setter
	expect_eq "$kind: the new offset is set" "0 1048576" "$(<"$TMP/setter") $(loop_attr "$HUNG" offset)"
	name=hung
	[ "$DRIVER" != loop ] || name=$losetups_name
	status=$(ioctl get-status64 7 | sed 's/.* flags=\(.*\) inode=.*/\1/')
	expect_eq "$kind: nothing of the killed ones came about" "direct_io name=$name 0 512" \
		"$status $(loop_attr "$HUNG" autoclear) $(queue_attr "$HUNG" logical_block_size)"
	expect_ok "$kind: what was written is there" cmp "$DATA/new" <(block 16 "$HUNG")
	dd if="$DATA/new" of="$DATA/data" bs=64k seek=32 conv=notrunc status=none
	expect_eq "$kind: LOOP_CLR_FD" 0 "$(ioctl clr-fd 7)"
	exec 7<&-
	expect_ok "$kind: let go of, the file is right" file_is_right
	release
done
