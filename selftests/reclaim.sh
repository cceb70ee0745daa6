#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# needs: MEM=512M
# More dirty data than memory (F12): writing back goes through the device, which needs memory for it. It makes progress, and
# the data is right.

. "$(dirname "$0")/lib.sh"

plan 2

# fill FILE: as much as there is memory, each block with its sum
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
