#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of make demo: a real tree goes into images through the driver
# and has to come back, by every way a user has. Prints the report.
set -euo pipefail

# About 230 MB in 5000 files, links among them.
tree=(usr/bin usr/include)

heading() { printf '\n== %s\n' "$*"; }
step() { printf '   %s\n' "$*"; }
attribute() { cat "/sys/block/${1#/dev/}/loop/$2" 2>/dev/null || echo n/a; }

# attach OPTION... IMAGE: prints the device.
attach() { losetup --find --show "$@"; }

# detach DEVICE: and wait until it is gone, which is when its last user lets go.
detach() {
	losetup --detach "$1"
	udevadm settle
	[[ -z $(losetup --list --noheadings --output BACK-FILE "$1" 2>/dev/null) ]] || {
		echo "$1 is still bound" >&2
		return 1
	}
}

# Counters are shown for each way of its own: what they were when the device was
# taken is subtracted.
declare -A before=()
rows=()
note() {
	local file
	for file in "/sys/block/${1#/dev/}"/loop/*; do
		before[${file##*/}]=$(<"$file")
	done
}
count() {
	local name=$1 device=$2 counter now row reasons=''
	printf -v row '%-30s %4s' "$name" "$(attribute "$device" dio)"
	for counter in inline_done inline_queued inline_again punted; do
		now=$(attribute "$device" "$counter")
		[[ $now == n/a ]] || now=$((now - before[$counter]))
		printf -v row '%s %9s' "$row" "$now"
	done
	for counter in "${!before[@]}"; do
		[[ $counter == not_tried_* ]] || continue
		now=$(($(attribute "$device" "$counter") - before[$counter]))
		((now == 0)) || reasons+=" ${counter#not_tried_}=$now"
	done
	rows+=("$row$reasons")
}

# verify FOLDER: every file has the checksum it was copied with, none is missing
# or in excess, every link points where it did.
verify() {
	(cd "$1" && xargs -0 -P "$(nproc)" -n 200 sha256sum <"$WORK/files" | sort) | cmp - "$WORK/sums"
	(cd "$1" && list) | cmp - "$WORK/list"
	step "$(wc -l <"$WORK/sums") checksums and $(wc -l <"$WORK/list") names compared, all equal"
}
list() { find "${tree[@]}" -printf '%y %m %p %l\n' | sort; }

heading "Driver"
module=/sys/module/$DRIVER
[[ -d $module ]]
step "kernel    $(uname -r), $(uname -v)"
step "module    $(modinfo -F filename "$DRIVER")"
step "vermagic  $(modinfo -F vermagic "$DRIVER")"
for parameter in "$module"/parameters/*; do
	step "          ${parameter##*/}=$(<"$parameter")"
done
[[ $(modinfo -F vermagic "$DRIVER") == "$(uname -r) "* ]]

heading "The tree: /${tree[0]}, /${tree[1]}"
cd /
find "${tree[@]}" -type f -print0 >"$WORK/files"
xargs -0 -P "$(nproc)" -n 200 sha256sum <"$WORK/files" | sort >"$WORK/sums"
list >"$WORK/list"
step "$(wc -l <"$WORK/sums") files, $(du -sc "${tree[@]}" | awk 'END { print int($1 / 1024) }') MB"

mount=$WORK/mount
mkdir "$mount"
for fs in ext4 xfs; do
	image=$WORK/$fs.img
	truncate --size 1G "$image"

	heading "$fs: losetup, mkfs, mount, copy"
	device=$(attach "$image")
	step "losetup --find --show: $device"
	note "$device"
	"mkfs.$fs" -q "$device"
	mount "$device" "$mount"
	cp --archive --parents "${tree[@]}" "$mount"
	umount "$mount"
	count "$fs, buffered, copy in" "$device"
	detach "$device"
	step "copied, unmounted, detached"

	heading "$fs: losetup --direct-io=on, fsck, mount, compare"
	device=$(attach --direct-io=on "$image")
	note "$device"
	[[ $(attribute "$device" dio) == 1 ]]
	case $fs in
	ext4) e2fsck -f -n "$device" >"$WORK/fsck" 2>&1 ;;
	xfs) xfs_repair -n "$device" >"$WORK/fsck" 2>&1 ;;
	esac || {
		cat "$WORK/fsck"
		exit 1
	}
	step "fsck finds nothing to repair"
	mount "$device" "$mount"
	verify "$mount"
	umount "$mount"
	count "$fs, direct I/O, compare" "$device"
	detach "$device"

	heading "$fs: mount -o loop, compare"
	mount -o loop "$image" "$mount"
	device=$(findmnt --noheadings --output SOURCE "$mount")
	note "$device"
	verify "$mount"
	count "$fs, mount -o loop, compare" "$device"
	umount "$mount"
	udevadm settle
	[[ -z $(losetup --associated "$image") ]]
	step "unmounting has released $device"
done

heading "Counters"
printf '%-30s %4s %9s %9s %9s %9s %s\n' 'commands' dio 'done' queued EAGAIN punted 'not tried'
printf '%s\n' "${rows[@]}"
printf '%s\n' 'done: completed in the submitter; queued: accepted there, completed later;' \
	'EAGAIN: tried, then punted; punted: by a work item, whatever the reason.'
