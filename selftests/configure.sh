#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What LOOP_CONFIGURE and LOOP_SET_FD refuse, and that a refusal leaves nothing behind: descriptors (F35), flags, block sizes
# (F40), a bound device, an exclusive opener (F30).

. "$(dirname "$0")/lib.sh"

plan 36

lower ext4
image ext4 1M
DEV=$(losetup --find)
defer detach "$DEV"

refuses() {
	local errno=$1 name=$2

	shift 2
	expect_error "refuses $name" "$errno" ioctl configure "$DEV" "$@"
}

mkfifo "$TMP/pipe"
exec 8<>"$TMP/pipe"
refuses EINVAL "a directory" file="$LOWER" mode=ro
refuses EINVAL "a character device" file=/dev/null
refuses EINVAL "a pipe" file=8
exec 8>&-
refuses EINVAL "a file that is not read by pages" file=/proc/self/mem mode=ro
refuses EBADF "a descriptor that is not open" file=77
refuses EBADF "descriptor -1" file=-1
refuses EBADF "itself" file="$DEV"
refuses EINVAL "a loop device that is not bound" file=/dev/loop7
refuses EINVAL "an unknown flag" file="$IMAGE" flags=0x100
refuses EINVAL "an encryption" file="$IMAGE" encrypt_type=1
refuses EINVAL "an encryption, even by name" file="$IMAGE" encrypt_type=18
refuses EINVAL "a key longer than there is room for" file="$IMAGE" encrypt_key_size=33
refuses EOVERFLOW "an offset above LLONG_MAX" file="$IMAGE" offset=0x8000000000000000
expect_ok "unbound after all of these" unbound "$DEV"
expect_error "no status" ENXIO ioctl get-status64 "$DEV"
expect_ok "the lower file system is not held" umount "$LOWER"
mount "$SPARE" "$LOWER"

for size in 1 256 513 1536 131072 0x80000000; do
	in_tree_fault "refuses block size $size" || refuses EINVAL "block size $size" file="$IMAGE" block_size=$size
done
in_tree_fault "unbound after bad block sizes" || expect_ok "unbound after bad block sizes" unbound "$DEV"
in_tree_fault "the lower file system is not held after bad block sizes" ||
	expect_ok "the lower file system is not held after bad block sizes" umount "$LOWER"
mountpoint --quiet "$LOWER" || mount "$SPARE" "$LOWER"

uevents ioctl configure "$DEV" file="$IMAGE" flags=autoclear >/dev/null
expect_num "uevents come after all the refusals" "$(event_list "$DEV" | grep --count '^change disk')" -ge 1
udevadm settle
await unbound "$DEV"

for size in 512 1024 2048 4096 8192 65536; do
	too_large "block size $size" $size && continue
	ioctl configure "$DEV" file="$IMAGE" block_size=$size >/dev/null
	expect_eq "block size $size" "$size $size $size" \
		"$(queue_attr "$DEV" logical_block_size) $(queue_attr "$DEV" physical_block_size) $(queue_attr "$DEV" minimum_io_size)"
	detach "$DEV"
done

ioctl configure "$DEV" file="$IMAGE" >/dev/null
expect_error "a bound device: CONFIGURE" EBUSY ioctl configure "$DEV" file="$IMAGE"
expect_error "a bound device: SET_FD" EBUSY ioctl set-fd "$DEV" file="$IMAGE"
detach "$DEV"

udevadm settle
hold "$DEV" excl
expect_error "an exclusive opener: CONFIGURE by another one" EBUSY ioctl configure "$DEV" file="$IMAGE"
expect_error "an exclusive opener: SET_FD by another one" EBUSY ioctl set-fd "$DEV" file="$IMAGE"
let_go
expect_eq "an exclusive opener may itself" 0 "$(ioctl configure "$DEV" file="$IMAGE" open=excl)"
