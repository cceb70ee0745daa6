#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Makes the Debian root a system that boots in a guest (tools/guest --installed): an initramfs by initramfs-tools that
# mounts the root by 9p, an fstab with images to mount by loop devices, and guest.service.

. "$(dirname "$0")/lib.sh"
set -e

printf '%s\n' 9p 9pnet_virtio >>/etc/initramfs-tools/modules
update-initramfs -c -k "$KVER"
files >/srv/files

# Else systemd takes it for the first boot, with all it does then.
printf '%032x\n' 1 >/etc/machine-id
touch /etc/.updated /var/.updated

mkdir -p /bed /dir /mnt/snap /mnt/data "$TMP/snap"
echo 'from a squashfs image' >"$TMP/snap/hello"
mksquashfs "$TMP/snap" /srv/snap.squashfs -quiet -no-progress
truncate --size 64M /srv/data.ext4
mkfs.ext4 -q /srv/data.ext4

cat >/etc/fstab <<EOF
bed /bed 9p trans=virtio,version=9p2000.L,cache=none 0 0
dir /dir 9p trans=virtio,version=9p2000.L,cache=loose,ro 0 0
/srv/snap.squashfs /mnt/snap squashfs loop,ro,nofail 0 0
/srv/data.ext4 /mnt/data ext4 loop,noauto 0 0
EOF
cat >/etc/systemd/system/guest.service <<EOF
[Unit]
RequiresMountsFor=/bed /dir
[Service]
ExecStart=/bed/tools/guest-init
EOF
