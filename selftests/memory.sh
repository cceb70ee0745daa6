#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Little memory (F12): much more dirty data than there is memory, through file systems and dm-crypt on loop devices. All of it
# makes progress, and is right.

. "$(dirname "$0")/lib.sh"

# What is left to use, in MB.
LEFT=320

plan 5

take_memory $LEFT

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
