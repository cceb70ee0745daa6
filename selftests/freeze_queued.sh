#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The lower file system is frozen while more commands wait for workers than there are workers, and one of those behind the
# others was tried (F5): it must not hold up the freeze, as its turn comes only when the others get on, which wait for the
# thaw.

. "$(dirname "$0")/lib.sh"

[ "$DRIVER" = rust_loop ] || skip_all "rust_loop's workers"

plan 5

DISK=selftest-$$
WORKERS=128
MANY=$((2 * WORKERS + 64))

remove_disk() {
	[ ! -e "/dev/mapper/$DISK" ] || await dmsetup remove "$DISK"
}
go_on() {
	[ ! -e "/dev/mapper/$DISK" ] || dmsetup resume --noudevsync "$DISK"
}
thaw() {
	! mountpoint --quiet "$TMP/lower" || fsfreeze --unfreeze "$TMP/lower"
}

defer reload_default
reload hw_queue_depth=512 nr_hw_queues=1 nowait=always || bail "cannot load with 512 requests"
dmsetup create "$DISK" --table "0 $(blockdev --getsz "$SPARE") linear $SPARE 0" || bail "no device-mapper"
defer remove_disk
mkfs ext4 "/dev/mapper/$DISK"
mount_at "/dev/mapper/$DISK" lower
IMAGE=$TMP/lower/image
truncate --size 64M "$IMAGE"
dd if=/dev/urandom of="$IMAGE" bs=4k count=1 seek=15000 conv=notrunc status=none
uncache "$IMAGE"
need_attach "$IMAGE" --direct-io=on
# Each command is one.
echo 2 >"/sys/block/${LOOP##*/}/queue/nomerges"
udevadm settle
# udev would read the device, and hold what who opens it waits for.
start_udev() {
	udevadm control --start-exec-queue
}
udevadm control --stop-exec-queue
defer start_udev

# Who writes a byte has the file's lock, and waits for the rest of the block from a disk that stands still.
dmsetup suspend --noflush --nolockfs "$DISK"
defer go_on
printf x | dd of="$IMAGE" bs=1 seek=$((15000 * 4096)) conv=notrunc status=none &
holder=$!

# Not tried, as the task has a limit of its own: all of them want a worker, and the workers want the lock.
(ulimit -f 10000000 && exec fio --name=many --filename="$LOOP" --allow_file_create=0 --direct=1 --rw=write --bs=4k \
	--size=$((MANY * 4))k --ioengine=libaio --iodepth=$MANY) >"$TMP/many" 2>&1 &
many=$!
waiting() {
	[ "$(loop_attr "$LOOP" blocking_writes)" -ge "$1" ]
}
expect_ok "$MANY writes wait for $WORKERS workers" await waiting $MANY

dd if=/dev/zero of="$LOOP" bs=4k seek=8000 count=1 oflag=direct status=none &
tried=$!
came_back() {
	[ "$(loop_attr "$LOOP" inline_again)" -gt 0 ]
}
expect_ok "one that was tried comes behind them" await came_back

defer thaw
fsfreeze --freeze "$TMP/lower" &
freezer=$!
# It has to be on its way: a freeze that comes later shows nothing.
sleep 2
go_on
expect_ok "the freeze comes to its end" await failing kill -0 $freezer
thaw
expect_ok "thawed: the one is done" wait $tried
expect_ok "thawed: the others are done" wait $many
wait $holder
detach "$LOOP"
