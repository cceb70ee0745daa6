#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Letting go at the last close: autoclear, by its flag and by mount(8) (F23), LOOP_CLR_FD with other openers (F25), and a
# lower file system that can be unmounted the moment the upper one is (F24).

. "$(dirname "$0")/lib.sh"

plan 22

lower ext4
image ext4 32M
mkfs ext4 "$IMAGE"

# The flag. A device that was never closed since stays.
need_attach "$IMAGE"
exec 9<"$LOOP"
ioctl set-status64 "$LOOP" flags=autoclear >/dev/null
expect_eq "flag: seen in sysfs" 1 "$(loop_attr "$LOOP" autoclear)"
expect_ok "flag: bound while open" bound "$LOOP"
exec 9<&-
expect_ok "flag: let go by the last close" await unbound "$LOOP"
need_attach "$IMAGE"
exec 9<"$LOOP"
ioctl set-status64 "$LOOP" flags=autoclear >/dev/null
ioctl set-status64 "$LOOP" flags= >/dev/null
exec 9<&-
udevadm settle
expect_ok "flag: cleared again, the last close keeps it" bound "$LOOP"
detach "$LOOP"

# mount(8)
mount_at "$IMAGE" upper -o loop
LOOP=$(findmnt --noheadings --output SOURCE "$TMP/upper")
expect_eq "mount: autoclear" 1 "$(loop_attr "$LOOP" autoclear)"
echo data >"$TMP/upper/file"
unmount "$TMP/upper"
expect_ok "umount lets go" await unbound "$LOOP"
mount_at "$IMAGE" upper -o loop
LOOP=$(findmnt --noheadings --output SOURCE "$TMP/upper")
expect_eq "mounted again: the data" data "$(cat "$TMP/upper/file")"
exec 9<"$LOOP"
ioctl get-status64 9 >"$TMP/status"
unmount "$TMP/upper"
expect_ok "another opener keeps the binding it has seen" bound "$LOOP"
expect_eq "and sees the same" "$(cat "$TMP/status")" "$(ioctl get-status64 9)"
mount_at "$LOOP" upper
expect_eq "and the device can be mounted" data "$(cat "$TMP/upper/file")"
exec 9<&-
unmount "$TMP/upper"
expect_ok "until its last close" await unbound "$LOOP"

# LOOP_CLR_FD
need_attach "$IMAGE"
exec 9<>"$LOOP"
expect_eq "CLR_FD with another opener" 0 "$(ioctl clr-fd "$LOOP")"
expect_ok "CLR_FD with another opener: still bound" bound "$LOOP"
expect_eq "CLR_FD with another opener: arms autoclear" 1 "$(loop_attr "$LOOP" autoclear)"
expect_eq "CLR_FD again" 0 "$(ioctl clr-fd "$LOOP")"
expect_ok "the other opener goes on" dd if=/dev/zero bs=4k count=1 oflag=sync of=/dev/fd/9
exec 9<&-
expect_ok "until its close" await unbound "$LOOP"
expect_error "CLR_FD of an unbound device" ENXIO ioctl clr-fd "$LOOP"
exec 9<>"$LOOP"
ioctl set-fd 9 file="$IMAGE" >/dev/null
udevadm settle
expect_eq "CLR_FD by the only opener" 0 "$(ioctl clr-fd 9)"
expect_error "then no one else can open it" open:ENXIO ioctl get-status64 "$LOOP"
exec 9>&-
expect_ok "let go by its close" await unbound "$LOOP"

# F24
mkfs ext4 "$IMAGE"
down() {
	local i

	for ((i = 0; i < 10; i++)); do
		mount_at "$IMAGE" upper -o loop && echo $i >"$TMP/upper/file" && unmount "$TMP/upper" &&
			unmount "$LOWER" && mount "$SPARE" "$LOWER" || return
	done
}
udevadm settle
expect_ok "umount, and umount of the lower file system at once, ten times" down
