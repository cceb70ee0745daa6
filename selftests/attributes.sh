#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the device shows of itself: the queue (F45), the loop/ group in sysfs and its life, the path of the image (F62).

. "$(dirname "$0")/lib.sh"

plan 25

IMAGE=$DATA/image
truncate --size 8M "$IMAGE"
need_attach "$IMAGE" --offset 8192 --sizelimit 1048576

expect_eq "no scheduler by default" '[none]' "$(queue_attr "$LOOP" scheduler | grep -o '\[.*\]')"
expect_eq "merges" 0 "$(queue_attr "$LOOP" nomerges)"
expect_eq "write cache" "write back" "$(queue_attr "$LOOP" write_cache)"
expect_eq "largest request" 1280 "$(queue_attr "$LOOP" max_hw_sectors_kb)"
expect_eq "block sizes" "512 512 512" \
	"$(queue_attr "$LOOP" logical_block_size) $(queue_attr "$LOOP" physical_block_size) $(queue_attr "$LOOP" minimum_io_size)"
expect_eq "rotational as the disk below" "$(queue_attr "$WORK_DISK" rotational)" "$(queue_attr "$LOOP" rotational)"
expect_eq "major and minor" "7:${LOOP#/dev/loop}" "$(cat "/sys/block/${LOOP#/dev/}/dev")"
expect_eq "block major 7 is named loop" "7 loop" "$(sed -n '/^Block/,$s/^ *\(7 .*\)/\1/p' /proc/devices)"
expect_eq "the control node's minor" "10:237" "$(stat --format=%Hr:%Lr /dev/loop-control)"

expect_eq "offset" 8192 "$(loop_attr "$LOOP" offset)"
expect_eq "sizelimit" 1048576 "$(loop_attr "$LOOP" sizelimit)"
expect_eq "autoclear, partscan, dio" "0 0 0" \
	"$(loop_attr "$LOOP" autoclear) $(loop_attr "$LOOP" partscan) $(loop_attr "$LOOP" dio)"
expect_eq "backing_file" "$IMAGE" "$(loop_attr "$LOOP" backing_file)"
mv "$IMAGE" "$DATA/renamed"
expect_eq "backing_file follows a new name" "$DATA/renamed" "$(loop_attr "$LOOP" backing_file)"
rm "$DATA/renamed"
expect_eq "backing_file of a deleted image" "$DATA/renamed (deleted)" "$(loop_attr "$LOOP" backing_file)"
expect_ok "which still works" dd if="$LOOP" of="$LOOP" bs=64k count=1 oflag=direct
diskseq=$(cat "/sys/block/${LOOP#/dev/}/diskseq")
detach "$LOOP"
expect_ok "detached, the group is gone" test ! -e "/sys/block/${LOOP#/dev/}/loop"
expect_eq "detached, the size is" 0 "$(cat "/sys/block/${LOOP#/dev/}/size")"
truncate --size 8M "$IMAGE"
need_attach "$IMAGE"
expect_num "another binding has another sequence number" "$(cat "/sys/block/${LOOP#/dev/}/diskseq")" -gt "$diskseq"
rust_only "the policy" || expect_eq "the policy" auto "$(loop_attr "$LOOP" nowait)"

# Requests that adjoin are merged.
merged() {
	awk '{ print $6 }' "/sys/block/${LOOP#/dev/}/stat"
}
before=$(merged)
fio_verify "$LOOP" --ioengine=libaio --iodepth=64 --iodepth_batch=64 --iodepth_batch_complete_min=64 --bs=4k --rw=write \
	--size=4M >"$TMP/out"
expect_num "adjoining writes of a batch are merged" $(($(merged) - before)) -gt 100
queue=/sys/block/${LOOP#/dev/}/queue
echo mq-deadline >"$queue/scheduler"
expect_eq "a scheduler can be set" '[mq-deadline]' "$(queue_attr "$LOOP" scheduler | grep -o '\[.*\]')"
expect_ok "and works" fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --bs=4k --rw=randwrite --size=1M
echo none >"$queue/scheduler"
detach "$LOOP"

# F62: a path longer than a page
long_path() {
	local i name

	name=$(printf 'd%.0s' {1..200})
	for ((i = 0; i < 21; i++)); do
		mkdir "$name" && cd "$name" || return
	done
	truncate --size 1M image && ioctl configure "$LOOP" file=image >/dev/null
}
cd "$DATA" || bail "no $DATA"
expect_ok "an image whose path is too long to show" long_path
expect_eq "is shown as an error" "File name too long" \
	"$(head "/sys/block/${LOOP#/dev/}/loop/backing_file" 2>&1 | grep -o 'File.*')"
cd /
detach "$LOOP"
