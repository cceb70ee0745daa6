#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Nothing touches a command after it has ended (F13): devices that go at once, and their requests with them, when the last one
# of hundreds ends; with caches dropped, by submitters that are killed. What touches a request late
# touches memory that is freed: make check-debug sees it by SLUB_DEBUG, PAGE_POISONING and DEBUG_OBJECTS, other kernels by luck.

. "$(dirname "$0")/lib.sh"

plan 5

INDEX=30
CYCLES=4

remove_device() {
	[ ! -e /sys/block/loop$INDEX ] || {
		detach /dev/loop$INDEX
		udevadm settle
		await ioctl remove /dev/loop-control index=$INDEX
	}
}

# deep DEVICE OPTION...: hundreds of commands under way; in this process's place
deep() {
	exec fio --name=deep --filename="$1" --direct=1 --ioengine=io_uring --iodepth=256 --numjobs=2 --thread --bs=4k \
		--allow_file_create=0 "${@:2}"
}

verified() (
	deep "$1" --rw=randwrite --size=8M --offset_increment=8M --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0
)

# Without direct I/O hundreds wait for a cold file only, which it is for a moment.
flights() {
	uncache "$IMAGE"
	sleep 0.02
	awk '{ exit $1 + $2 < 64 }' "/sys/block/loop$INDEX/inflight"
}

# cycle DIO: a device that is made, bound, used and removed, by a user who is killed with all he has under way
cycle() {
	local fio

	ioctl add /dev/loop-control index=$INDEX || return
	losetup --direct-io="$1" /dev/loop$INDEX "$IMAGE" || return
	deep /dev/loop$INDEX --rw=randrw --size=16M --time_based --runtime=300 &
	fio=$!
	await flights || {
		kill $fio
		return 1
	}
	echo 3 >/proc/sys/vm/drop_caches
	losetup --detach /dev/loop$INDEX
	kill -KILL $fio
	wait $fio
	await unbound /dev/loop$INDEX || return
	await ioctl remove /dev/loop-control index=$INDEX
}

cycles() {
	local i

	for ((i = 0; i < CYCLES; i++)); do
		cycle "$1" || return
	done
}

lower ext4
IMAGE=$LOWER/image
dd if=/dev/zero of="$IMAGE" bs=1M count=16 conv=fsync status=none
defer remove_device
for dio in on off; do
	expect_ok "direct I/O $dio: $CYCLES devices go under I/O" cycles $dio
	need_attach "$IMAGE" --direct-io=$dio
	expect_ok "direct I/O $dio: 512 deep, verified" verified "$LOOP"
	detach "$LOOP"
done
expect_ok "the module goes" await rmmod "$DRIVER"
modprobe "$DRIVER"
