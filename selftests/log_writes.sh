#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A flush covers every write that ended before it (F84), down to the disk: what loop devices write is logged below the
# image's file system, or below the device itself, and replayed to moments when the power may have gone. The log has only
# what a FLUSH of the disk has covered. Every record that was flushed is there, and the file systems are clean.
# needs: DISKS="2G 1G"

. "$(dirname "$0")/lib.sh"

plan 5

LOG=${DISK}c
REPLAYED=${DISK}d
DM=log-writes-$$
SECTORS=$((600 << 11))
FLUSHED=40
POINTS=3
SEED=1
RECORDS=$SELFTESTS/power/records.py
REPLAY_LOG=$SELFTESTS/power/replay_log.py

remove_dm() {
	[ ! -e "/dev/mapper/$DM" ] || await dmsetup remove "$DM"
}

# create_dm TABLE
create_dm() {
	defer remove_dm
	dmsetup create "$DM" --table "0 $SECTORS $1"
}

# load: two writers of records, and one of data that nobody flushes, into $TMP/upper until end_load
load() {
	local writer

	touch "$TMP/loading"
	: >"$TMP/acked"
	defer end_load
	WRITERS=()
	for writer in a b; do
		"$RECORDS" load "$TMP/upper/$writer" $writer dmsetup message "$DM" 0 mark >>"$TMP/acked" &
		WRITERS+=($!)
	done
	while [ -e "$TMP/loading" ]; do
		dd if=/dev/urandom of="$TMP/upper/dirty" bs=64k count=16 conv=notrunc status=none
		sleep 0.2
	done &
	DIRTY=$!
}

# acked N: so many records are flushed.
acked() {
	[ "$(wc -l <"$TMP/acked")" -ge "$1" ]
}

end_load() {
	rm "$TMP/loading"
	kill "${WRITERS[@]}"
	wait "${WRITERS[@]}" "$DIRTY"
}

# put_below LOWER: what to attach in $IMAGE: a file on the file system LOWER on the device, or that itself
put_below() {
	IMAGE=/dev/mapper/$DM
	[ "$1" = bdev ] || {
		mount_at "$IMAGE" lower && IMAGE=$TMP/lower/image
	}
}

# allocate KIND UPPER: the image, for this file system
allocate() {
	local megabytes=64

	# XFS takes no less.
	[ "$2" = ext4 ] || megabytes=320
	case $1 in
	sparse) truncate --size ${megabytes}M "$IMAGE" ;;
	unwritten) fallocate --length ${megabytes}M "$IMAGE" ;;
	written) dd if=/dev/zero of="$IMAGE" bs=1M count=$megabytes status=none ;;
	none) ;;
	esac
}

# write_log LOWER UPPER DIO KIND [REMOUNT_OPTION]: what is written below, under load
write_log() {
	local lower=$1 upper=$2 dio=$3 kind=$4 option=${5-} device

	for device in "$SPARE" "$REPLAYED"; do
		blkdiscard --force --zeroout --length $((SECTORS << 9)) "$device" || return
	done
	create_dm "log-writes $SPARE $LOG" || return
	[ "$lower" = bdev ] || mkfs "$lower" "/dev/mapper/$DM" || return
	put_below "$lower" && allocate "$kind" "$upper" && attach "$IMAGE" --direct-io="$dio" || return
	mkfs "$upper" "$LOOP" && mount_at "$LOOP" upper && mkdir "$TMP/upper/a" "$TMP/upper/b" && sync || return
	[ -z "$option" ] || mount -o "remount,$option" "$TMP/lower" || return
	dmsetup message "$DM" 0 mark begin || return
	load
	await acked $FLUSHED || return
	# It ends if the log is full, or without memory.
	failing grep logging_disabled <<<"$(dmsetup status "$DM")" || return
}

# recovered LOWER UPPER DIO LAST_A LAST_B: what is on the replayed disk. It is not changed: recovery writes to a snapshot.
recovered() {
	local lower=$1 upper=$2 dio=$3 status=0

	dd if=/dev/zero of="$SPARE" bs=64k count=1 conv=fsync status=none
	create_dm "snapshot $REPLAYED $SPARE N 8" || return
	put_below "$lower" && attach "$IMAGE" --direct-io="$dio" && mount_at "$LOOP" upper || return
	"$RECORDS" check "$TMP/upper/a" a "$4" || status=1
	"$RECORDS" check "$TMP/upper/b" b "$5" || status=1
	unmount "$TMP/upper" && fsck "$upper" "$LOOP" && detach "$LOOP" || return
	[ "$lower" = bdev ] || {
		unmount "$TMP/lower" && fsck "$lower" "/dev/mapper/$DM" || return
	}
	return $status
}

# survives LOWER UPPER DIO KIND [REMOUNT_OPTION]: at every point, all is there that was flushed.
survives() {
	local from=0 to a b status

	write_log "$@"
	status=$?
	release
	[ $status -eq 0 ] || return
	"$REPLAY_LOG" points "$LOG" $POINTS $SEED a b >"$TMP/points" || return
	while read -r -u 3 to a b; do
		echo "after $to entries; last records flushed: a $a, b $b"
		"$REPLAY_LOG" replay "$LOG" "$REPLAYED" "$from" "$to" || return
		from=$to
		recovered "$1" "$2" "$3" "$a" "$b"
		status=$?
		release
		[ $status -eq 0 ] || return
	done 3<"$TMP/points"
}

# report: what was checked
report() {
	diag "$(awk '/^after/ { points++ } /^## checked/ { records += $4 } END { print points + 0 " points, " records + 0 " records" }' \
		"$TMP/out")"
}

# flushed LOWER UPPER DIO KIND
flushed() {
	expect_ok "$2 on $1, image $4, direct I/O $3: what was flushed is there" survives "$@"
	report
}

flushed ext4 ext4 on written
flushed ext4 xfs off sparse
flushed xfs ext4 on unwritten
flushed bdev ext4 off none

# The same over a file system that does not pass a flush on to the disk: it can be seen.
survives ext4 ext4 on written nobarrier >"$TMP/lost" 2>&1
expect_ok "what is flushed as far as the image only is lost" grep 'record .* is not there' "$TMP/lost"
