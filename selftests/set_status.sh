#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# LOOP_SET_STATUS64 and LOOP_GET_STATUS64: what they show and change, also on a mounted device (F31) and over dirty pages
# (F32), what they refuse (F73), and who may (F72).

. "$(dirname "$0")/lib.sh"

plan 36

IMAGE=$DATA/image
head --bytes=8M /dev/urandom >"$IMAGE"
DEV=$(losetup --find)

# field NAME: of the status
field() {
	ioctl get-status64 "$LOOP" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

for request in get-status64 get-status; do
	expect_error "$request of an unbound device" ENXIO ioctl $request "$DEV"
done

for request in set-capacity set-direct-io set-block-size; do
	expect_error "$request of an unbound device" ENXIO ioctl $request "$DEV" on=1 size=4096
done

need_attach "$IMAGE" --offset 4096 --sizelimit 65536
expect_eq "shows the offset" 4096 "$(field offset)"
expect_eq "shows the limit" 65536 "$(field sizelimit)"
expect_eq "shows the number" "${LOOP#/dev/loop}" "$(field number)"
expect_eq "shows the inode" "$(stat --format=%i "$IMAGE")" "$(field inode)"
expect_eq "shows the device" "$(stat --format=%Hd:%Ld "$IMAGE")" "$(field device)"
expect_eq "shows the name" "$IMAGE" "$(field name)"
expect_eq "the old structure shows the same" "$(field offset) $(field inode)" \
	"$(ioctl get-status "$LOOP" | sed 's/.*offset=\([0-9]*\).*inode=\([0-9]*\).*/\1 \2/')"

# F73
for request in get-status64 get-status; do
	expect_error "$request without a structure" EINVAL ioctl $request "$LOOP" null=1
	expect_error "$request without a structure, again" EINVAL ioctl $request "$LOOP" null=1
done
expect_error "set-status64 of a bad address" EFAULT ioctl raw "$LOOP" request=0x4C04 arg=1
expect_error "an unknown request" EINVAL ioctl raw "$LOOP" request=0x4C3F
expect_error "an encryption" EINVAL ioctl set-status64 "$LOOP" encrypt_type=1
expect_eq "all the same after these" "4096 65536 $IMAGE" "$(field offset) $(field sizelimit) $(field name)"

# F72
unprivileged() {
	setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$SELFTESTS/ioctl.py" "$@"
}
expect_error "read-only descriptor: set-status64" EPERM unprivileged set-status64 "$LOOP" open=ro
expect_error "read-only descriptor: set-capacity" EPERM unprivileged set-capacity "$LOOP" open=ro
expect_error "read-only descriptor: set-direct-io" EPERM unprivileged set-direct-io "$LOOP" open=ro on=1
expect_error "read-only descriptor: set-block-size" EPERM unprivileged set-block-size "$LOOP" open=ro size=4096
expect_ok "read-only descriptor: get-status64 is allowed" unprivileged get-status64 "$LOOP" open=ro
expect_ok "writable descriptor: set-status64 is allowed" unprivileged set-status64 "$LOOP"
expect_ok "read-only descriptor with CAP_SYS_ADMIN: set-status64 is allowed" ioctl set-status64 "$LOOP" open=ro

# F32: what is cached belongs to the old place.
cp "$IMAGE" "$DATA/expected"
head --bytes=16K /dev/urandom >"$DATA/pattern"
dd if="$DATA/pattern" of="$DATA/expected" bs=16K oflag=seek_bytes seek=4096 conv=notrunc status=none
exec 9<>"$LOOP"
dd if="$DATA/pattern" of=/dev/fd/9 bs=16K conv=notrunc status=none
expect_eq "over dirty pages: a new offset" 0 "$(ioctl set-status64 9 offset=65536 sizelimit=0)"
expect_ok "shows the new place" cmp --ignore-initial=65536:0 --bytes=1M "$DATA/expected" /dev/fd/9
exec 9>&-
detach "$LOOP"
expect_ok "and what was dirty is in the old one" cmp "$DATA/expected" "$IMAGE"

# F32: udev reads on events; here someone does all the time.
beside_readers() {
	local i reader status=0

	while :; do
		cat "$LOOP" >/dev/null
	done &
	reader=$!
	for ((i = 0; i < 10; i++)); do
		dd if="$DATA/pattern" of="$LOOP" bs=16K conv=notrunc,nocreat status=none
		ioctl set-status64 "$LOOP" offset=$((i % 2 * 65536)) && ioctl set-block-size "$LOOP" size=$((512 << i % 4)) || status=1
	done
	kill $reader
	wait $reader
	return $status
}
need_attach "$IMAGE"
expect_ok "beside writers and readers: no EAGAIN" beside_readers
detach "$LOOP"

# F31
truncate --size 0 "$IMAGE"
truncate --size 32M "$IMAGE"
need_attach "$IMAGE"
mkfs ext4 "$LOOP"
mount_at "$LOOP" upper
expect_eq "mounted: a new name" 0 "$(ioctl set-status64 "$LOOP" name=renamed flags=autoclear)"
expect_eq "mounted: is shown" renamed "$(field name)"
cp "$DATA/pattern" "$TMP/upper/file"
unmount "$TMP/upper"
expect_ok "mounted: the flag works" await unbound "$LOOP"
need_attach "$IMAGE"
mount_at "$LOOP" upper -o ro,noload
expect_eq "mounted: a new offset, and back" $'0\n0' \
	"$(ioctl set-status64 "$LOOP" offset=1048576; cat "$TMP/upper/file" >"$TMP/moved" 2>&1; ioctl set-status64 "$LOOP" offset=0)"
unmount "$TMP/upper"
mount_at "$LOOP" upper
expect_ok "mounted: nothing is lost by that" cmp "$DATA/pattern" "$TMP/upper/file"
