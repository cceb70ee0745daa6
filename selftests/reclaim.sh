#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Swap on a loop device is written by tasks that reclaim memory (F12). None of these is sent into the file system below; all
# that was swapped comes back as it was.

. "$(dirname "$0")/lib.sh"

plan 4

# use MB: a program with more memory than there is, which reads it again
use() {
	python3 -I - "$1" <<-END
		import sys
		size = int(sys.argv[1]) << 20
		memory = bytearray(size)
		for round in (1, 2):
		    for page in range(0, size, 4096):
		        if round == 2 and memory[page:page + 8] != page.to_bytes(8, "little"):
		            sys.exit("wrong at %d" % page)
		        memory[page:page + 8] = page.to_bytes(8, "little")
	END
}

[ "$DRIVER" = loop ] || {
	defer reload_default
	reload nowait=always
}
lower ext4
IMAGE=$LOWER/image
# Written, so that a try of a write would succeed.
dd if=/dev/zero of="$IMAGE" bs=1M count=600 conv=fsync status=none
chmod 600 "$IMAGE"
uncache "$IMAGE"
need_attach "$IMAGE"
swap_on
udevadm settle
# The first direct I/O on the file system below, for which that makes a workqueue, is to be reclaim's.
losetup --direct-io=on "$LOOP" || bail "no direct I/O"
take_memory 256
before=$(swapped)
expect_ok "more memory used than there is" use $(($(available) + 192))
expect_num "pages were swapped out" $(($(swapped) - before)) -gt 10000
# Write-back of swap by reclaim is the only thing that a try refuses for this reason, but for a lack of memory itself.
rust_only "reclaim does not try" || expect_num "reclaim does not try" "$(loop_attr "$LOOP" not_tried_reclaim)" -gt 100
unmount "$TMP/taken"
swap_off
expect_eq "swap was given back" 0 "$(grep --count "^$LOOP " /proc/swaps)"
detach "$LOOP"
