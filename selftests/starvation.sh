#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Five hundred commands of one device for each CPU block in the file below (F82): no more workers are taken from the
# system than the device may have, others that need one get it, and every command ends well afterwards.

. "$(dirname "$0")/lib.sh"

plan 8

DM=selftest-$$
HUNG_TASK=/proc/sys/kernel/hung_task_timeout_secs
SAVED_HUNG_TASK=$(<$HUNG_TASK)
# As in workqueue.rs: of a device, on each CPU.
MAX_ACTIVE=128
CPUS=$(nproc)

resume() {
	dmsetup --noudevsync resume "$DM"
	udevadm control --start-exec-queue
}
let_all_go() {
	resume
	await dmsetup remove "$DM"
	echo "$SAVED_HUNG_TASK" >$HUNG_TASK
}
workers() {
	pgrep --count '^kworker'
}
in_flight() {
	awk '{ print $1 + $2 }' "/sys/block/${HUNG#/dev/}/inflight"
}
many_in_flight() {
	[ "$(in_flight)" -ge $((450 * CPUS)) ]
}
settled() {
	local before

	before=$(workers)
	sleep 1
	[ "$(workers)" = "$before" ]
}

lower bdev
echo 0 >$HUNG_TASK # they block on purpose, and longer on a slow machine
dmsetup create "$DM" --table "0 $(blockdev --getsz "$SPARE") linear $SPARE 0" || bail "no dm-linear"
defer let_all_go
udevadm settle
mkfs ext4 "/dev/mapper/$DM" >"$TMP/mkfs" || bail "no ext4 to test on"
mount_at "/dev/mapper/$DM" below
dd if=/dev/urandom of="$DATA/data" bs=1M count=64 status=none
cp "$DATA/data" "$TMP/below/image"

[ "$DRIVER" = loop ] || {
	defer reload_default
	reload hw_queue_depth=512 nr_hw_queues="$CPUS"
}
need_attach "$TMP/below/image"
HUNG=$LOOP
uncache "$TMP/below/image"
before=$(workers)

# udevd would look at the device, and wait.
udevadm control --stop-exec-queue
dmsetup --noudevsync suspend --nolockfs --noflush "$DM" || bail "cannot suspend $DM"
fio --name=blocked --filename="$HUNG" --allow_file_create=0 --direct=1 --rw=randread --bs=4k --size=64M --io_size=16M \
	--ioengine=libaio --iodepth=600 --numjobs=2 --cpus_allowed="0-$((CPUS - 1))" --cpus_allowed_policy=split \
	--randrepeat=0 >"$TMP/fio" 2>&1 &
fio=$!
rust_only "that many commands are blocked" || expect_ok "that many commands are blocked" await many_in_flight
await settled
expect_num "workers taken, at most" $(($(workers) - before)) -le $((MAX_ACTIVE * CPUS + 16))

# Work on the system's own per-CPU workqueue, on each CPU, that someone waits for. With one CPU there is none.
if [ "$CPUS" = 1 ]; then
	skip "the system's work goes on" "one CPU"
else
	expect_ok "the system's work goes on" timeout 60 tee /proc/sys/vm/stat_refresh <<<1
fi
truncate --size 8M "$DATA/other"
expect_ok "another device is attached" attach "$DATA/other"
expect_ok "and works" timeout 120 fio --name=other --filename="$LOOP" --allow_file_create=0 --direct=1 --rw=randwrite --bs=4k \
	--size=2M --end_fsync=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0
expect_ok "files are written and flushed" timeout 60 dd if=/dev/zero of="$DATA/file" bs=1M count=4 conv=fsync status=none

resume
expect_ok "all commands end well" wait "$fio"
expect_eq "with the right data" "$(checksum "$DATA/data")" "$(checksum "$HUNG")"
