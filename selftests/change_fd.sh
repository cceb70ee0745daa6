#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# LOOP_CHANGE_FD: swaps the image of a read-only device for one of the same size, with its partitions (F34), lets the old
# one go, and refuses the rest, itself included (F33).

. "$(dirname "$0")/lib.sh"

plan 21

lower tmpfs
for name in one two; do
	head --bytes=4M /dev/urandom >"$LOWER/$name"
done
cp "$LOWER/two" "$DATA/other"
head --bytes=2M /dev/urandom >"$DATA/small"

need_attach "$LOWER/one"
expect_error "a writable device" EINVAL ioctl change-fd "$LOOP" file="$LOWER/two"
detach "$LOOP"
expect_error "an unbound device" ENXIO ioctl change-fd "$LOOP" file="$LOWER/two"

need_attach "$LOWER/one" --read-only
change() {
	ioctl change-fd "$LOOP" open=ro "$@"
}
expect_error "another size" EINVAL change file="$DATA/small"
expect_error "a directory" EINVAL change file="$DATA" mode=ro
expect_error "a descriptor that is not open" EBADF change file=77
expect_error "itself" EBADF change file="$LOOP" mode=ro
expect_ok "after these it shows the first image" cmp "$LOWER/one" "$LOOP"
expect_eq "another image of the same size" 0 "$(change file="$DATA/other")"
expect_ok "is what it shows" cmp "$DATA/other" "$LOOP"
expect_eq "and says so" "$DATA/other" "$(loop_attr "$LOOP" backing_file)"
expect_eq "it is still read-only" 1 "$(blockdev --getro "$LOOP")"
expect_ok "the first image is let go" umount "$LOWER"

BASE=$LOOP
attach "$BASE" --read-only
TOP=$LOOP
LOOP=$BASE
expect_error "a loop device that stands on it" EBADF change file="$TOP" mode=ro
expect_error "a loop device that is not bound" EINVAL change file=/dev/loop7 mode=ro
LOOP=$TOP
expect_eq "the upper one may change to an image" 0 "$(change file="$DATA/other")"
detach "$TOP"
detach "$BASE"

truncate --size 16M "$DATA/parts" "$DATA/plain"
sfdisk --quiet "$DATA/parts" <<<$'label: gpt\nsize=4M\nsize=4M'
need_attach "$DATA/parts" --read-only --partscan
expect_ok "partitions of the first image" test -e "/sys/block/${LOOP#/dev/}/${LOOP#/dev/}p2"
# A partition that udev has open cannot go.
udevadm settle
expect_eq "to an image without" 0 "$(change file="$DATA/plain")"
expect_ok "no ghost partitions" test ! -e "/sys/block/${LOOP#/dev/}/${LOOP#/dev/}p1"
expect_eq "and back" 0 "$(change file="$DATA/parts")"
expect_ok "the partitions are there" test -e "/sys/block/${LOOP#/dev/}/${LOOP#/dev/}p2"
detach "$LOOP"

# F33
race() {
	local i

	need_attach "$DATA/other" --read-only
	BASE=$LOOP
	attach "$BASE" --read-only
	TOP=$LOOP
	for ((i = 0; i < 40; i++)); do
		ioctl change-fd "$BASE" open=ro file="$TOP" mode=ro
	done >"$TMP/down" &
	for ((i = 0; i < 20; i++)); do
		losetup --detach "$TOP"
		losetup --read-only "$TOP" "$BASE"
	done 2>"$TMP/up"
	wait $!
	! grep --quiet --invert-match 'EBADF\|EINVAL\|open:' "$TMP/down"
}
expect_ok "against one that comes and goes on top of it" race
