#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# /dev/loop-control: adding, removing and finding devices, and its errors (F70, F71); devices made by opening their node.

. "$(dirname "$0")/lib.sh"

plan 27

IMAGE=$DATA/image
truncate --size 1M "$IMAGE"

control() {
	ioctl "$1" /dev/loop-control "${@:2}"
}

remove_tests_devices() {
	local index

	for index in 40 41 77; do
		await failing grep --quiet . "/sys/block/loop$index/loop/backing_file" && control remove index=$index
	done
}
defer remove_tests_devices

expect_eq "add: returns the index" 40 "$(control add index=40)"
expect_ok "add: the device is there" test -b /dev/loop40
expect_error "add: an index that exists" EEXIST control add index=40
udevadm settle
expect_eq "remove" 0 "$(control remove index=40)"
expect_ok "remove: the device is gone" test ! -e /sys/block/loop40
expect_error "remove: no such device" ENODEV control remove index=40
expect_error "remove: index -1" EINVAL control remove index=-1
expect_error "an unknown request" ENOSYS control raw request=0x4C8F
expect_error "add: an index beyond the minors" EINVAL control add index=1048576
expect_error "add: and nothing of it is left" ENODEV control remove index=1048576
expect_eq "add: anywhere" 8 "$(control add index=-1)"
udevadm settle
control remove index=8 >/dev/null
in_tree_fault "add: an index beyond 32 bits" ||
	expect_error "add: an index beyond 32 bits" "EINVAL|EOVERFLOW|ENOSPC" control add index=0x100000028
expect_ok "add: is not cut to 32 bits" test ! -e /sys/block/loop40

control add index=41 >/dev/null
udevadm settle
exec 9</dev/loop41
expect_error "remove: an open device" EBUSY control remove index=41
exec 9<&-
expect_ok "bind" losetup /dev/loop41 "$IMAGE"
expect_error "remove: a bound device" EBUSY control remove index=41
detach /dev/loop41
udevadm settle
expect_eq "remove: after detach" 0 "$(await control remove index=41)"

expect_eq "get free: the lowest" 0 "$(control get-free)"
expect_eq "get free: the same again" 0 "$(control get-free)"
need_attach "$IMAGE"
expect_eq "get free: the next when it is bound" 1 "$(control get-free)"
expect_error "bind: what another one got first" EBUSY ioctl set-fd "$LOOP" file="$IMAGE"
for index in 1 2 3 4 5 6 7; do
	losetup "/dev/loop$index" "$IMAGE"
	defer detach "/dev/loop$index"
done
expect_eq "get free: makes one when all are bound" 8 "$(control get-free)"
expect_ok "get free: it is there" test -b /dev/loop8
release
udevadm settle
await control remove index=8 >/dev/null

defer remove_tests_devices
mknod "$TMP/node" b 7 77
expect_ok "opening the node of an index that is not there makes it" blockdev --getsize64 "$TMP/node"
expect_ok "and it can be bound" losetup "$TMP/node" "$IMAGE"
expect_eq "under its own name" "$IMAGE" "$(cat /sys/block/loop77/loop/backing_file)"
detach /dev/loop77
udevadm settle
expect_eq "and removed" 0 "$(await control remove index=77)"
