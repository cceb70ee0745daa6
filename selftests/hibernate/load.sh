#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# load.sh: writes to all that guest.sh has made, and hibernates meanwhile; then looks at what is there. Nothing but memory,
# /dev/vdc, /dev/vdd and the kernel log is left once it has been woken up.
set -u

wrong=0

say() { echo "<1>hibernate: $*" >/dev/kmsg; }
wrong() {
	say "wrong, $*"
	wrong=1
}

# load NAME FILE FIO-ARGUMENT...: over and over until there is /stop; what is written is read back and compared, now and then.
# The clock of fio stands still as long as the machine does.
load() {
	until [[ -e /stop ]]; do
		fio --name="$1" --filename="$2" --size=96M --rw=randwrite --bs=4k --verify=crc32c --verify_backlog=512 --verify_fatal=1 \
			--time_based --runtime=20 "${@:3}" >"/fio/$1" 2>&1 || return
	done
}

# mounted_on FOLDER: the device
mounted_on() {
	local device folder

	while read -r device folder _; do
		[[ $folder != "$1" ]] || echo "$device"
	done </proc/mounts
}

# is_clean FS DEVICE
is_clean() {
	case $1 in
	ext4) e2fsck -f -n "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	esac >/fsck 2>&1 || wrong "$1 on $2 is not clean: $(cat /fsck)"
}

echo 8 >/proc/sys/kernel/printk
echo shutdown >/sys/power/disk
# As small as can be: the emulated machine takes long for it.
echo 0 >/sys/power/image_size
jobs=()
for path in /upper/*; do
	load "${path#/upper/}" "$path/load" --ioengine=psync --fsync=32 &
	jobs+=($!)
done
for path in /raw/*; do
	load "${path#/raw/}" "$(<"$path")" --ioengine=libaio --iodepth=64 --direct=1 &
	jobs+=($!)
done
sleep $((5 + RANDOM % 8)).$((RANDOM % 10))
# An emulated kcompactd takes longer for all that the image has left free than its freezer waits for it.
echo 0 >/proc/sys/vm/compaction_proactiveness
# Refused now and then: a thread of the kernel waits for a loop device whose work items are frozen already.
for ((attempt = 1; ; attempt++)); do
	say "asleep"
	if echo disk >/sys/power/state; then
		say "awake"
		break
	elif ((attempt < 5)); then
		say "refused"
	else
		wrong "it does not hibernate"
		echo o >/proc/sysrq-trigger
		sleep 60
	fi
done
sleep 5
: >/stop
for job in "${jobs[@]}"; do
	wait "$job" || wrong "fio has failed: $(cat /fio/*)"
done
say "verified"

sync
# Not the inodes, which the root, 9p, would be told of.
echo 1 >/proc/sys/vm/drop_caches
for path in /upper/*; do
	name=${path#/upper/}
	[[ $(sha256sum <"$path/still") == "$(</still/"$name")" ]] || wrong "$name: a file that nobody wrote to has changed"
	device=$(mounted_on "$path")
	umount "$path" || wrong "$name cannot be unmounted"
	is_clean "${name%-on-*}" "$device"
done
losetup --detach-all
for path in /lower/*; do
	device=$(mounted_on "$path")
	umount "$path" || wrong "$path cannot be unmounted"
	is_clean "${path#/lower/}" "$device"
done
say "ended $wrong"
echo o >/proc/sysrq-trigger
sleep 60
