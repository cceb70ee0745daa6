#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh: a machine that will be hibernated. /dev/vdc is for the image of its memory, /dev/vdd for file systems. The root
# does not survive that, so that what goes on, load.sh, is copied to memory with all that it needs. It tells how it goes in
# the kernel log, by lines of "hibernate: ".
set -u

life=/run/life
disk=/dev/vdd

die() {
	echo "<1>hibernate: wrong, $*" >/dev/kmsg
	echo o >/proc/sysrq-trigger
	sleep 60
}

programs=()
for name in bash cat fio losetup sha256sum sleep sync umount e2fsck xfs_repair; do
	programs+=("$(type -P "$name")") || die "no program $name in the root"
done
{
	printf '%s\n' "${programs[@]}"
	ldd "${programs[@]}" | grep -o '/[^ :)]*'
} | sort -u | while read -r file; do
	mkdir -p "$life${file%/*}"
	cp --dereference "$file" "$life$file" || die "cannot copy $file"
done
mkdir -p $life/{dev,proc,sys,lower,upper,still,raw,fio}
cp /dir/load.sh $life/

make() {
	case $1 in
	ext4) mkfs.ext4 -q -F "$2" ;;
	xfs) mkfs.xfs -q -f "$2" ;;
	esac >/run/mkfs 2>&1 || die "mkfs.$1 $2: $(tail -n 1 /run/mkfs)"
}

# {ext4, XFS} and a device without a file system, in sparse images on {ext4, XFS}, buffered and with direct I/O.
sfdisk --quiet $disk <<<$'label: gpt\nsize=1100M\nsize=1100M' || die "no partitions on $disk"
udevadm settle
part=0 dio=off
for lower in ext4 xfs; do
	part=$((part + 1))
	mkdir $life/lower/$lower
	make $lower $disk$part
	mount $disk$part $life/lower/$lower || die "$lower does not mount"
	for upper in ext4 xfs raw; do
		[[ $dio == on ]] && dio=off || dio=on
		name=$upper-on-$lower
		image=$life/lower/$lower/$upper
		truncate --size 320M "$image"
		loop=$(losetup --find --show --direct-io=$dio "$image") || die "$name: no loop device"
		if [[ $upper == raw ]]; then
			echo "$loop" >$life/raw/$name
			continue
		fi
		make $upper "$loop"
		mkdir $life/upper/$name
		mount "$loop" $life/upper/$name || die "$name does not mount"
		dd if=/dev/urandom of=$life/upper/$name/still bs=1M count=24 conv=fsync status=none
		sha256sum <$life/upper/$name/still >$life/still/$name
	done
done

mkswap /dev/vdc >/dev/null || die "no swap on /dev/vdc"
swapon /dev/vdc || die "no swap on /dev/vdc"
for folder in dev proc sys; do
	mount --rbind /$folder $life/$folder
done
# All others, but for process 1: they would wait for their programs, for ever.
kill -KILL -1
exec chroot $life bash /load.sh >/dev/null 2>&1
