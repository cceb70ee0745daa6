#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Little memory (F12): much more dirty data than there is memory, through file systems and dm-crypt on loop devices, and
# swap on one. All of it makes progress, and is right.

. "$(dirname "$0")/lib.sh"

# What is left to use, in MB.
LEFT=320

plan 8

available() {
	awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo
}

# What is in a ramfs is nobody's to use, write back or swap out.
mount_at none taken -t ramfs || bail "no ramfs"

give_back() {
	rm -f "$TMP/taken/memory"
}

take_memory() {
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zero of="$TMP/taken/memory" bs=1M count=$(($(available) - LEFT)) status=none
	[ "$(available)" -lt $((LEFT * 2)) ]
}
take_memory || bail "memory cannot be taken away: $(available) MB are left"

IMAGE=$DATA/image

# dirty FILE: more than what is available, through the page cache.
dirty() {
	fio --name=dirty --filename="$1" --rw=write --bs=128k --size=$((LEFT * 2))M --ioengine=psync --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --verify_state_save=0 --end_fsync=1
}

for kind in ext4 xfs; do
	for dio in on off; do
		rm -f "$IMAGE"
		truncate --size 1G "$IMAGE"
		need_attach "$IMAGE" --direct-io=$dio
		mkfs $kind "$LOOP" && mount_at "$LOOP" upper
		expect_ok "$kind, direct I/O $dio: more dirty data than memory" dirty "$TMP/upper/file"
		unmount "$TMP/upper"
		detach "$LOOP"
	done
done

rm -f "$IMAGE"
truncate --size 1G "$IMAGE"
need_attach "$IMAGE" --direct-io=on
close_crypt() {
	dmsetup info memory_crypt >/dev/null 2>&1 && dmsetup remove --retry memory_crypt
}
dmsetup create memory_crypt --table "0 $(blockdev --getsz "$LOOP") crypt aes-xts-plain64 $(printf '%064d' 7) 0 $LOOP 0" &&
	defer close_crypt
expect_ok "dm-crypt: more dirty data than memory" dirty /dev/mapper/memory_crypt
close_crypt
detach "$LOOP"

# Swap is written by tasks in the midst of reclaim, which must not go into a file system for that.
rm -f "$IMAGE"
fallocate --length 1G "$IMAGE"
chmod 600 "$IMAGE"
need_attach "$IMAGE" --direct-io=on
swap_off() {
	! grep --quiet "^$LOOP " /proc/swaps || swapoff "$LOOP"
}
mkswap "$LOOP" >/dev/null && swapon "$LOOP" && defer swap_off
swapped() {
	awk '/^pswpout/ { print $2 }' /proc/vmstat
}
before=$(swapped)
# What is available now need not be what it was at first.
give_back
take_memory || bail "memory cannot be taken away again: $(available) MB are left"
expect_ok "swap: more memory used than there is" \
	stress-ng --vm 1 --vm-bytes $(($(available) + 256))M --vm-method incdec --vm-ops 4 --verify --oomable --timeout 300
expect_num "swap: pages went there" $(($(swapped) - before)) -gt 1000
# By the guard, or as there was no memory to describe the command with: the counter is the same.
rust_only "swap: tries were refused for lack of memory" ||
	expect_num "swap: tries were refused for lack of memory" "$(loop_attr "$LOOP" not_tried_reclaim)" -gt 0
swap_off
detach "$LOOP"
