#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# LOOP_CONFIGURE that fails, then LOOP_CLR_FD, then one that works (F27), for each place where it can fail; and while there is
# I/O on that device and on another one.

. "$(dirname "$0")/lib.sh"

plan 16

lower ext4
image ext4 4M
await_unused
DEV=/dev/loop$(ioctl add /dev/loop-control index=40)
udevadm settle
defer detach "$DEV"

# works: binds the device, writes, lets go: the file has it.
works() {
	head --bytes=1M /dev/urandom >"$DATA/data"
	ioctl configure "$DEV" file="$IMAGE" && dd if="$DATA/data" of="$DEV" bs=64k conv=fsync status=none &&
		detach "$DEV" && cmp --bytes=1M "$IMAGE" "$DATA/data"
}

# fails ERRNO NAME REQUEST...: of the device that is not bound
fails() {
	local errno=$1 name=$2

	shift 2
	expect_eq "$name" "$errno ENXIO 0" "$(ioctl "$@") $(ioctl clr-fd "$DEV") $(works 2>&1)"
}

fails EFAULT "no structure" raw "$DEV" request=0x4c0a
fails EBADF "no descriptor" configure "$DEV" file=-1
fails EINVAL "a directory" configure "$DEV" file="$LOWER" mode=ro
fails EBADF "itself" configure "$DEV" file="$DEV"
fails EINVAL "an unknown flag" configure "$DEV" file="$IMAGE" flags=0x100
fails EOVERFLOW "a bad offset" configure "$DEV" file="$IMAGE" offset=0x8000000000000000
fails EINVAL "a bad encryption" configure "$DEV" file="$IMAGE" encrypt_type=18
in_tree_fault "a bad block size" || fails EINVAL "a bad block size" configure "$DEV" file="$IMAGE" block_size=513
udevadm settle
hold "$DEV" excl
expect_eq "an exclusive opener" "EBUSY ENXIO" "$(ioctl configure "$DEV" file="$IMAGE") $(ioctl clr-fd "$DEV")"
let_go
expect_ok "it is gone: works" works

# once_more NAME COMMAND...: repeats it until $TMP/enough is there; what it says, each thing once.
once_more() {
	local name=$1

	shift
	until [ -e "$TMP/enough" ]; do
		"$@"
	done | sort --unique >"$TMP/$name"
}

# F27: under I/O
need_attach "$IMAGE" --direct-io=on
once_more bound ioctl configure "$LOOP" file="$IMAGE" &
once_more unbound ioctl configure "$DEV" file=77 &
once_more flag ioctl configure "$DEV" file="$IMAGE" flags=0x100 &
once_more clear ioctl clr-fd "$DEV" &
expect_ok "failing beside I/O: no block is lost" \
	fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --rw=randwrite --bs=4k --size=4M
touch "$TMP/enough"
wait
expect_eq "failing beside I/O: their errors" "EBUSY EBADF EINVAL ENXIO" \
	"$(cat "$TMP/bound" "$TMP/unbound" "$TMP/flag" "$TMP/clear" | xargs)"
detach "$LOOP"
expect_ok "the block device's file is right" fio_verify "$IMAGE" --rw=randwrite --bs=4k --size=4M --verify_only
expect_ok "the other one still works" works
udevadm settle
await_unused
expect_eq "it can be removed" 0 "$(await ioctl remove /dev/loop-control index=40)"
expect_ok "the lower file system is not held" umount "$LOWER"
