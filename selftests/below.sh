#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What is done to the image and to its file system behind the device's back, under I/O that is verified: unlinked, punched, grown;
# the owner's quota full and raised; remounted for reading, shut down (F11). The right answer, and it goes on if it can.

. "$(dirname "$0")/lib.sh"

plan 38

load() {
	fio_verify "$LOOP" --ioengine=io_uring --iodepth=16 --rw=randwrite --bs=4k --size=8M --loops=3
}

# during COMMAND...: while the load is under way
during() {
	local fio status

	load &
	fio=$!
	await under_way || return
	"$@"
	status=$?
	wait $fio && return $status
}
under_way() {
	awk '{ exit $5 < 200 }' "/sys/block/${LOOP#/dev/}/stat"
}

grow() {
	truncate --size "$1" "$IMAGE" && losetup --set-capacity "$LOOP"
}

# write_at MEGABYTE: of $DATA/data; what it said of an error
write_at() {
	dd if="$DATA/data" of="$LOOP" bs=64k skip=$(($1 * 16)) seek=$(($1 * 16)) count=64 oflag=direct 2>&1 |
		grep --only-matching 'Input/output error\|Disk quota exceeded\|No space left on device'
}

is_data() {
	cmp --ignore-initial="$1M" --bytes=4M "$2" "$DATA/data"
}

head --bytes=24M /dev/urandom >"$DATA/data"
for kind in ext4 xfs; do
	for dio in off on; do
		on="$kind, direct I/O $dio"
		lower $kind
		IMAGE=$LOWER/image
		cp "$DATA/data" "$IMAGE"
		sync "$IMAGE"
		need_attach "$IMAGE" --direct-io=$dio
		expect_ok "$on: punched under I/O" during fallocate --punch-hole --offset 12M --length 4M "$IMAGE"
		expect_ok "$on: which reads as zeroes" cmp --ignore-initial=12M:0 --bytes=4M "$LOOP" /dev/zero
		expect_ok "$on: grown under I/O" during grow 32M
		expect_eq "$on: the device has the new size" $((32 << 20)) "$(blockdev --getsize64 "$LOOP")"
		expect_ok "$on: unlinked under I/O" during rm "$IMAGE"
		expect_eq "$on: sysfs says so" "$IMAGE (deleted)" "$(loop_attr "$LOOP" backing_file)"
		expect_ok "$on: the rest is still there" is_data 20 "$LOOP"
		detach "$LOOP"
		release
	done
done

# XFS holds the owner's quota against root's workers as well. The block layer has no word for EDQUOT.
for dio in off on; do
	on="quota, direct I/O $dio"
	[ -e /proc/fs/xfs/xqm ] || {
		for point in "beyond it is an error" "raised, writing goes on" "and all is there"; do
			skip "$on: $point" "this kernel's XFS has no quota"
		done
		continue
	}
	lower xfs -o uquota
	image xfs 24M
	chown 65534 "$IMAGE"
	need_attach "$IMAGE" --direct-io=$dio
	udevadm settle
	xfs_quota -x -c 'limit bhard=6m 65534' "$LOWER"
	write_at 0 >"$TMP/out"
	expect_eq "$on: beyond it is an error" "Input/output error" "$(write_at 4)"
	xfs_quota -x -c 'limit bhard=0 65534' "$LOWER"
	expect_eq "$on: raised, writing goes on" "" "$(write_at 4)$(write_at 8)"
	# Written back with direct I/O at the latest.
	uncache "$LOOP"
	detach "$LOOP"
	expect_ok "$on: and all is there" cmp --bytes=12M "$IMAGE" "$DATA/data"
	release
done

lower ext4
image ext4 24M
need_attach "$IMAGE"
expect_ok "a file system is not remounted for reading while the device writes to it" during failing mount -o remount,ro "$LOWER"
detach "$LOOP"
release

lower xfs
image xfs 24M
cp "$DATA/data" "$IMAGE"
# A shutdown forgets what has not got to the journal, the image's name among it.
sync --file-system "$LOWER"
need_attach "$IMAGE" --direct-io=on
xfs_io -x -c shutdown "$LOWER"
expect_eq "shut down: I/O fails" "Input/output error" "$(write_at 0)"
expect_ok "shut down: the device is let go of" detach "$LOOP"
umount "$LOWER" && mount "$SPARE" "$LOWER"
need_attach "$IMAGE" --direct-io=on
expect_eq "mounted anew: it works" "" "$(write_at 0)"
detach "$LOOP"
