#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Offset and size limit: what the device shows of the image, to the byte, and how large it is; growing and shrinking (F41).

. "$(dirname "$0")/lib.sh"

plan 26

IMAGE=$DATA/image
SIZE=$((1 << 20))

# size NAME EXPECTED [LOSETUP_OPTION]...
size() {
	local name=$1 expected=$2

	shift 2
	need_attach "$IMAGE" "$@"
	expect_eq "size: $name" "$expected" "$(blockdev --getsize64 "$LOOP")"
	detach "$LOOP"
}

# same OFFSET LENGTH: the device shows LENGTH bytes of the image from OFFSET.
same() {
	cmp --ignore-initial="$1:0" --bytes="$2" "$IMAGE" "$LOOP"
}

new_image() {
	head --bytes=$SIZE /dev/urandom >"$IMAGE"
}

new_image
size "whole image" $SIZE
size "offset" $((SIZE - 4096)) --offset 4096
size "odd offset, rounded down to sectors" $((SIZE - 2048)) --offset 1537
size "offset at the end" 0 --offset $SIZE
size "offset beyond the end" 0 --offset $((SIZE * 2))
size "limit" 65536 --sizelimit 65536
size "odd limit, rounded down" 65024 --sizelimit 65535
size "limit beyond the end" $SIZE --sizelimit $((SIZE * 4))
size "limit counts from the offset" $((SIZE / 2)) --offset 8192 --sizelimit $((SIZE / 2))
size "limit and offset leave less than the limit" $((SIZE / 4)) --offset $((SIZE * 3 / 4)) --sizelimit $((SIZE / 2))
truncate --size $((SIZE + 511)) "$IMAGE"
size "odd image, rounded down" $SIZE

for offset in 512 1537 4096; do
	for dio in off on; do
		new_image
		cp "$IMAGE" "$DATA/expected"
		need_attach "$IMAGE" --offset $offset --sizelimit 524288 --direct-io=$dio
		bs=$(queue_attr "$LOOP" logical_block_size)
		head --bytes=8192 /dev/urandom >"$DATA/pattern"
		expect_ok "offset $offset, dio $dio: reads" same $offset 524288
		dd if="$DATA/pattern" of="$LOOP" bs="$bs" seek=$((65536 / bs)) oflag=direct status=none
		dd if="$DATA/pattern" of="$DATA/expected" bs=8192 oflag=seek_bytes seek=$((offset + 65536)) conv=notrunc \
			status=none
		detach "$LOOP"
		expect_ok "offset $offset, dio $dio: a write lands there, and only there" cmp "$IMAGE" "$DATA/expected"
	done
done

need_attach "$IMAGE"
expect_error "offset above LLONG_MAX" EOVERFLOW ioctl set-status64 "$LOOP" offset=0x8000000000000000
expect_error "limit above LLONG_MAX" EOVERFLOW ioctl set-status64 "$LOOP" sizelimit=0xffffffffffffffff
expect_eq "both leave the size alone" $SIZE "$(blockdev --getsize64 "$LOOP")"
detach "$LOOP"
