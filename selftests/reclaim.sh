#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# needs: MEM=512M
# More dirty data than memory, and swap (F12): writing back and swapping out go through the device, which needs memory for
# it. They make progress, and the data is right.

. "$(dirname "$0")/lib.sh"

plan 4

# fill FILE: more than there is memory, by its own sum
fill() {
	fio --name=fill --filename="$1" --rw=write --bs=256k --size=500M --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--verify_state_save=0 --end_fsync=1
}

for how in xfs:off ext4:on; do
	kind=${how%:*} dio=${how#*:}
	lower "$kind"
	image "$kind" 700M
	need_attach "$IMAGE" --direct-io="$dio"
	mkfs "$kind" "$LOOP" >"$TMP/out"
	mount_at "$LOOP" upper
	expect_ok "$kind on $kind, direct I/O $dio: written and read back" fill "$TMP/upper/file"
	unmount "$TMP/upper"
	detach "$LOOP"
	release
done

swap_off() {
	! grep --quiet "^$LOOP " /proc/swaps || swapoff "$LOOP"
}

lower ext4
image ext4 500M
fallocate --length 500M "$IMAGE"
for dio in off on; do
	need_attach "$IMAGE" --direct-io=$dio
	mkswap "$LOOP" >"$TMP/out" 2>&1
	swapon "$LOOP"
	defer swap_off
	expect_ok "swap, direct I/O $dio" stress-ng --quiet --vm 2 --vm-bytes 250M --vm-method rowhammer --verify --vm-ops 2000
	swap_off
	detach "$LOOP"
done
