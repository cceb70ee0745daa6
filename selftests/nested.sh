#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Loop devices on loop devices (F1), plain and with file systems between them, with write-back throttling on each (F7).

. "$(dirname "$0")/lib.sh"

plan 7

lower ext4

# throttle DEVICE: write-back throttling, where a millisecond is soon exceeded
throttle() {
	echo 1000 >"/sys/block/${1##*/}/queue/wbt_lat_usec" && [ "$(queue_attr "$1" wbt_lat_usec)" = 1000 ]
}

# three MODE: devices in $ONE $TWO $THREE, each on the one before, the first on an image
three() {
	image ext4 32M
	attach "$IMAGE" --direct-io="$1" && ONE=$LOOP && attach "$ONE" --direct-io="$1" && TWO=$LOOP &&
		attach "$TWO" --direct-io="$1" && THREE=$LOOP
}

for dio in off on; do
	three $dio || bail "cannot stack"
	for device in "$ONE" "$TWO" "$THREE"; do
		throttle "$device" || bail "no throttling on $device"
	done
	expect_ok "three levels, direct I/O $dio: random, libaio" \
		fio_verify "$THREE" --ioengine=libaio --iodepth=32 --rw=randrw --bssplit=4k/50:64k/50 --size=8M
	expect_ok "three levels, direct I/O $dio: through the page cache" \
		fio_verify "$THREE" --direct=0 --fsync=64 --rw=randwrite --bs=16k --offset=16M --size=8M
	detach "$THREE"
	detach "$TWO"
	detach "$ONE"
done

# xfs on loop on ext4 on loop on xfs on loop on ext4
tower() {
	local kind dir=$LOWER

	truncate --size 900M "$dir/image"
	for kind in xfs ext4 xfs; do
		attach "$dir/image" --direct-io=on && throttle "$LOOP" && mkfs $kind "$LOOP" && mount_at "$LOOP" "level-$kind-$1" ||
			return
		dir=$TMP/level-$kind-$1
		truncate --size $((900 - 150 * (++FLOOR)))M "$dir/image"
		set -- "x$1"
	done
	TOP=$dir
}
FLOOR=0
expect_ok "file systems between: a tower" tower 1
expect_ok "file systems between: random, io_uring" \
	fio_verify "$TOP/image" --ioengine=io_uring --iodepth=16 --rw=randrw --bs=4k --size=4M
expect_ok "file systems between: buffered" \
	fio_verify "$TOP/image" --direct=0 --end_fsync=1 --rw=randwrite --bs=4k --offset=8M --size=4M
