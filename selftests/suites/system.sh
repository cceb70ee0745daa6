#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# system.sh KVER: makes the Debian root a system that systemd boots in a guest (tools/guest --installed), with the
# module /srv/rust_loop.ko to load, for suites that stop and start services.
set -eu
kver=$1

printf '%s\n' 9p 9pnet_virtio >>/etc/initramfs-tools/modules
update-initramfs -c -k "$kver"
install -D -m 644 /srv/rust_loop.ko "/usr/lib/modules/$kver/updates/rust_loop.ko"
depmod "$kver"

# Else systemd takes it for the first boot, with all it does then.
printf '%032x\n' 1 >/etc/machine-id
touch /etc/.updated /var/.updated

mkdir -p /bed /dir
cat >/etc/fstab <<EOF
bed /bed 9p trans=virtio,version=9p2000.L,cache=none 0 0
dir /dir 9p trans=virtio,version=9p2000.L,cache=loose,ro 0 0
EOF
cat >/etc/systemd/system/guest.service <<EOF
[Unit]
RequiresMountsFor=/bed /dir
Wants=systemd-udevd.service systemd-udev-trigger.service
After=systemd-udevd.service systemd-udev-trigger.service
[Service]
ExecStart=/bed/tools/guest-init
EOF
