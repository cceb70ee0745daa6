#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Nothing of the kernel's memory gets out: every byte of the structures that are copied to user space is as it should be, gaps
# between fields and ends included, none behind them is touched, and none by a call that fails; nor is there more in sysfs
# than lines, nor in the memory of a reader whose READ fails at the end of the file.

. "$(dirname "$0")/lib.sh"

plan 4

IMAGE=$DATA/image
head --bytes=1M /dev/urandom >"$IMAGE"
need_attach "$IMAGE"
ioctl set-status64 "$LOOP" name=leaks >"$TMP/out"
expect_eq "structures and attributes" "" "$("$SELFTESTS/leaks.py" "$LOOP" "$IMAGE" leaks 2>&1)"
detach "$LOOP"
for dio in off on; do
	truncate --size 1M "$IMAGE"
	need_attach "$IMAGE" --direct-io=$dio
	udevadm settle
	truncate --size 400100 "$IMAGE"
	expect_eq "a READ that fails, direct I/O $dio" "" "$("$SELFTESTS/leaks.py" --read "$LOOP" "$IMAGE" 2>&1)"
	detach "$LOOP"
done
# What can be read at all of a device that has another size than its file.
truncate --size 1000000 "$IMAGE"
need_attach "$IMAGE"
expect_eq "the end of a file that is no whole number of sectors" "999936 $(head --bytes=999936 "$IMAGE" | sha256sum)" \
	"$(blockdev --getsize64 "$LOOP") $(sha256sum <"$LOOP")"
detach "$LOOP"
