#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Makes the Debian root a system that boots in a guest (tools/make-bootable), with images in its fstab to mount by loop
# devices.

. "$(dirname "$0")/lib.sh"
set -e

/srv/rust_loop/tools/make-bootable "$KVER"
files >/srv/files

mkdir -p /mnt/snap /mnt/data "$TMP/snap"
echo 'from a squashfs image' >"$TMP/snap/hello"
mksquashfs "$TMP/snap" /srv/snap.squashfs -quiet -no-progress
truncate --size 64M /srv/data.ext4
mkfs.ext4 -q /srv/data.ext4

cat >>/etc/fstab <<EOF
/srv/snap.squashfs /mnt/snap squashfs loop,ro,nofail 0 0
/srv/data.ext4 /mnt/data ext4 loop,noauto 0 0
EOF
