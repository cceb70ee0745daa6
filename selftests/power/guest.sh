#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh FRESH DIO FOLDER_WITH_ACKED: one life of a machine that loses its power. Makes (FRESH=1) or checks four file
# systems on loop devices, {ext4, xfs} on {ext4, xfs}, on the partitions of /dev/vdc; then writes to them until the end.
# FOLDER/acked has a line NAME N for each: the last record that was flushed in the life before.
set -u

fresh=$1 dio=$2 folder=$3
disk=/dev/vdc
bad=0

wrong() {
	echo "# $*"
	bad=1
}

is_clean() {
	case $1 in
	ext4) e2fsck -f -n "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	esac >/run/fsck 2>&1 || {
		sed 's/^/# /' /run/fsck | tail -n 20
		return 1
	}
}

make() {
	case $1 in
	ext4) mkfs.ext4 -q -F "$2" ;;
	xfs) mkfs.xfs -q -f "$2" ;;
	esac >/run/mkfs 2>&1 || wrong "mkfs.$1 $2: $(tail -n 1 /run/mkfs)"
}

if ((fresh)); then
	sfdisk --quiet "$disk" <<<$'label: gpt\nsize=500M\nsize=500M\nsize=500M\nsize=500M' || wrong "no partitions"
	udevadm settle
fi

part=0
for lower in ext4 xfs; do
	for upper in ext4 xfs; do
		name=$upper-on-$lower
		below=/run/$name-lower above=/run/$name-upper
		part=$((part + 1))
		mkdir -p "$below" "$above"
		((!fresh)) || make $lower $disk$part
		# Replays the journal.
		mount $disk$part "$below" || wrong "$name: the lower file system does not mount"
		((!fresh)) || dd if=/dev/zero of="$below/image" bs=1M count=380 conv=fsync status=none
		loop=$(losetup --find --show --direct-io="$dio" "$below/image") || wrong "$name: no loop device"
		((!fresh)) || make $upper "$loop"
		if ((!fresh)); then
			mount "$loop" "$above" || wrong "$name: the upper file system does not mount"
			last=$(awk -v name=$name '$1 == name { print $2 }' "$folder/acked")
			"$folder/records.py" check "$above" $name "$last" || bad=1
			umount "$above"
			is_clean $upper "$loop" || wrong "$name: the upper file system is not clean"
			losetup --detach "$loop"
			umount "$below"
			is_clean $lower $disk$part || wrong "$name: the lower file system is not clean"
			mount $disk$part "$below"
			loop=$(losetup --find --show --direct-io="$dio" "$below/image")
		fi
		mount "$loop" "$above" || wrong "$name: does not mount"
		find "$above" -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -r {} +
		sync
	done
done
echo "## ready $bad"
((bad == 0)) || exit 1

for name in ext4-on-ext4 xfs-on-ext4 ext4-on-xfs xfs-on-xfs; do
	"$folder/records.py" load /run/$name-upper $name &
done
# Dirty pages that nobody waits for, beside them.
while :; do
	for above in /run/*-upper; do
		dd if=/dev/urandom of="$above/dirty" bs=64k count=64 conv=notrunc status=none
	done
done
