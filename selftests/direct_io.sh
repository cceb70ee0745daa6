#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Switching direct I/O: the ways to ask for it, when it is off all the same (F42, F44), alignment (F43), and that each
# switch leaves the data of the other mode whole.

. "$(dirname "$0")/lib.sh"

plan 23

IMAGE=$DATA/image
head --bytes=4M /dev/urandom >"$IMAGE"
DEV=$(losetup --find)
defer detach "$DEV"

# configured NAME EXPECTED OPTION...: the mode that comes out
configured() {
	local name=$1 expected=$2

	shift 2
	ioctl configure "$DEV" "$@" >/dev/null
	expect_eq "$name" "$expected" "$(loop_attr "$DEV" dio)"
	detach "$DEV"
}

configured "not asked for: off" 0 file="$IMAGE"
configured "by the flag: on" 1 file="$IMAGE" flags=direct_io
configured "by a file opened so: on" 1 file="$IMAGE" mode=rw+direct
configured "at an aligned offset: on" 1 file="$IMAGE" flags=direct_io offset=4096
configured "at an odd offset: off" 0 file="$IMAGE" flags=direct_io offset=100

need_attach "$IMAGE"
expect_eq "switched on" "0 1" "$(ioctl set-direct-io "$LOOP" on=1) $(loop_attr "$LOOP" dio)"
expect_eq "on again" "0 1" "$(ioctl set-direct-io "$LOOP" on=1) $(loop_attr "$LOOP" dio)"
expect_eq "shown in the status" flags=direct_io "$(ioctl get-status64 "$LOOP" | grep -o 'flags=[^ ]*')"
ioctl set-status64 "$LOOP" offset=1 >/dev/null
expect_eq "goes off at an offset that cannot" 0 "$(loop_attr "$LOOP" dio)"
expect_error "cannot be switched on there" EINVAL ioctl set-direct-io "$LOOP" on=1
expect_eq "switching off what is off" 0 "$(ioctl set-direct-io "$LOOP" on=0)"
detach "$LOOP"

# F43: no less than a sector; the virtio disk below needs no more.
alignment() {
	cat "/sys/block/${LOOP#/dev/}/queue/dma_alignment"
}
need_attach "$IMAGE"
expect_eq "memory alignment, buffered" 511 "$(alignment)"
ioctl set-direct-io "$LOOP" on=1 >/dev/null
expect_eq "memory alignment, direct" 511 "$(alignment)"
detach "$LOOP"

# What one mode wrote the other reads.
cp "$IMAGE" "$DATA/expected"
need_attach "$IMAGE"
switches() {
	local i

	for ((i = 0; i < 8; i++)); do
		head --bytes=64K /dev/urandom >"$DATA/pattern"
		dd if="$DATA/pattern" of="$DATA/expected" bs=64K seek=$((i * 3)) conv=notrunc status=none &&
			dd if="$DATA/pattern" of="$LOOP" bs=64K seek=$((i * 3)) oflag=direct status=none &&
			ioctl set-direct-io "$LOOP" on=$(((i + 1) % 2)) &&
			dd if="$LOOP" bs=64K skip=$((i * 3)) count=1 iflag=direct status=none | cmp - "$DATA/pattern" ||
			return
	done
}
expect_ok "switched to and fro between writes" switches

switch_under_fio() {
	local i=0 fio

	fio_verify "$LOOP" --rw=randwrite --bs=4k --offset=3M --size=1M --ioengine=libaio --iodepth=16 --loops=4 &
	fio=$!
	while kill -0 $fio 2>/dev/null; do
		ioctl set-direct-io "$LOOP" on=$((i++ % 2)) || return
	done
	wait $fio
}
expect_ok "switched to and fro under fio" switch_under_fio
dd if="$LOOP" of="$DATA/expected" bs=1M skip=3 seek=3 conv=notrunc status=none

ioctl set-direct-io "$LOOP" on=0 >/dev/null
dd if=/dev/zero of="$LOOP" bs=64K count=1 oflag=direct status=none
dd if=/dev/zero of="$DATA/expected" bs=64K count=1 conv=notrunc status=none
cat "$LOOP" >/dev/null
ioctl set-direct-io "$LOOP" on=1 >/dev/null
in_tree_fault "switched on: nothing of the image stays cached" ||
	expect_eq "switched on: nothing of the image stays cached" 0 \
		"$(fincore --bytes --noheadings --output PAGES "$IMAGE" | tr -d ' ')"
detach "$LOOP"
expect_ok "all is in the image" cmp "$DATA/expected" "$IMAGE"

# Memory that begins and ends in the middle of pages, in pieces.
pieces() {
	python3 -IS - "$1" <<'EOF'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
def pieces():
    view = memoryview(mmap.mmap(-1, 1 << 20))
    return [view[512:1024], view[4608:8704], view[12800:13312], view[20992:29696], view[65024:589824]]
out, back = pieces(), pieces()
for piece in out:
    piece[:] = os.urandom(len(piece))
length = sum(map(len, out))
assert os.pwritev(fd, out, 1024) == length
assert os.preadv(fd, back, 1024) == length
assert out == back
assert os.pread(os.open(sys.argv[1], os.O_RDONLY), length, 1024) == b"".join(out)
EOF
}
for dio in off on; do
	need_attach "$IMAGE" --direct-io=$dio --sector-size 512
	expect_ok "memory in pieces, direct I/O $dio" pieces "$LOOP"
	detach "$LOOP"
done

# F44
lower ramfs
image ramfs 4M
ioctl configure "$DEV" file="$IMAGE" flags=direct_io >/dev/null
expect_eq "a file system without: attached, off" 0 "$(loop_attr "$DEV" dio)"
expect_eq "a file system without: not in the status" flags= "$(ioctl get-status64 "$DEV" | grep -o 'flags=[^ ]*')"
expect_error "a file system without: cannot be switched on" EINVAL ioctl set-direct-io "$DEV" on=1
expect_ok "a file system without: the data" fio_verify "$DEV" --rw=randwrite --bs=4k --size=1M
detach "$DEV"
