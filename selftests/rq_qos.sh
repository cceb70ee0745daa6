#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands that wait in the block layer before they get to a device (F7): for a tag, and by wbt, io.latency and io.max (and
# io.cost: iocost.sh), on the loop device, on the disk below, and on both. All of them get on, and the data is right.

. "$(dirname "$0")/lib.sh"

read -ra CONTROLLERS <<<"${CONTROLLERS:-wbt io.latency io.max}"
plan $((2 + 3 * ${#CONTROLLERS[@]}))

new_cgroup
echo "+io +memory" >"$CGROUP/cgroup.subtree_control"
mkdir "$CGROUP/first" "$CGROUP/second" || bail "no cgroup"

number() {
	stat --format=%Hr:%Lr "$1"
}

# control WHAT DEVICE: the controller begins with the device, such that it has to do: a latency of a microsecond is
# exceeded, and then the others are held back until one command is on its way.
control() {
	case $1 in
	wbt) echo 100 >"/sys/block/${2##*/}/queue/wbt_lat_usec" ;;
	io.latency)
		echo "$(number "$2") target=1" >"$CGROUP/first/io.latency" &&
			echo "$(number "$2") target=10000000" >"$CGROUP/second/io.latency"
		;;
	io.cost)
		echo "$(number "$2") ctrl=user enable=1 rpct=95 rlat=500 wpct=95 wlat=500 min=10 max=100" \
			>/sys/fs/cgroup/io.cost.qos
		;;
	io.max)
		echo "$(number "$2") rbps=8388608 wbps=8388608" >"$CGROUP/first/io.max"
		;;
	esac
}

# release_control WHAT DEVICE: as it was
release_control() {
	case $1 in
	wbt) echo -1 >"/sys/block/${2##*/}/queue/wbt_lat_usec" ;;
	io.latency)
		echo "$(number "$2") target=0" >"$CGROUP/first/io.latency"
		echo "$(number "$2") target=0" >"$CGROUP/second/io.latency"
		;;
	io.cost) echo "$(number "$2") enable=0" >/sys/fs/cgroup/io.cost.qos ;;
	io.max) echo "$(number "$2") rbps=max wbps=max" >"$CGROUP/first/io.max" ;;
	esac
}

# there WHAT: whether the kernel has it
there() {
	case $1 in
	wbt) [ -e "/sys/block/${SPARE##*/}/queue/wbt_lat_usec" ] ;;
	io.cost) [ -e /sys/fs/cgroup/io.cost.qos ] ;;
	*) [ -e "$CGROUP/first/$1" ] ;;
	esac
}

# split_reads: commands that the block layer splits into sixteen, by a task without a plug
split_reads() {
	dd if="$LOOP" of=/dev/null bs=256k count=64 iflag=direct status=none
}

# one GROUP OFFSET: batches, split reads and write-back by the cgroup, in 16 MiB from there on
one() {
	within "$CGROUP/$1" fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --iodepth_batch=8 --rw=randrw --bssplit=4k/50:64k/50 \
		--offset="$2M" --size=4M &&
		within "$CGROUP/$1" split_reads &&
		within "$CGROUP/$1" fio_verify "$LOOP" --direct=0 --fsync=32 --rw=randwrite --bs=16k --offset="$(($2 + 8))M" --size=2M
}

# load: of both at once
load() {
	local first second status=0

	one first 0 &
	first=$!
	one second 16 &
	second=$!
	wait $first || status=1
	wait $second || status=1
	return $status
}

defer reload_default
case $DRIVER in
rust_loop) reload hw_queue_depth=4 nr_hw_queues=1 nowait=always ;;
*) reload ;;
esac
lower ext4
IMAGE=$LOWER/image
dd if=/dev/urandom of="$IMAGE" bs=1M count=32 conv=fsync status=none
need_attach "$IMAGE" --direct-io=on
echo 16 >"/sys/block/${LOOP##*/}/queue/max_sectors_kb" || bail "commands cannot be split"

# The second part of a command waits for the tag of the first, which is below.
expect_ok "no tags: commands are split into more than there are" split_reads
rust_only "no tags: they are tried" || expect_num "no tags: they are tried" "$(inline "$LOOP")" -gt 100

for what in "${CONTROLLERS[@]}"; do
	for where in "loop:$LOOP" "disk:$SPARE" "both:$LOOP $SPARE"; do
		name="$what: ${where%%:*}"
		there "$what" || {
			skip "$name" "this kernel has no $what"
			continue
		}
		read -ra devices <<<"${where#*:}"
		for device in "${devices[@]}"; do
			control "$what" "$device" || bail "no $what on $device"
		done
		expect_ok "$name" load
		for device in "${devices[@]}"; do
			release_control "$what" "$device"
		done
	done
done
detach "$LOOP"
