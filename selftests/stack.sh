#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The kernel stack holds (F1): XFS over dm-thin over dm-crypt below a loop device, and loop devices on loop devices, three
# and more than a stack has room for. Where the kernel has a stack tracer, what the deepest task has used.

. "$(dirname "$0")/lib.sh"

plan 6

TRACE=/sys/kernel/tracing
TRACER=/proc/sys/kernel/stack_tracer_enabled
STACK=16384
# More than fit: each takes more than half a KiB.
MANY=32

stop_tracer() {
	echo 0 >$TRACER
}

# begin: tries whatever they come to; and the tracer, which keeps the deepest stack that any task has had since.
begin() {
	[ "$DRIVER" = loop ] || {
		defer reload_default
		reload nowait=always
	}
	[ -w $TRACER ] || return 0
	mountpoint --quiet "$TRACE" || mount_at tracefs trace -t tracefs
	mountpoint --quiet "$TRACE" || TRACE=$TMP/trace
	echo 1 >$TRACER
	defer stop_tracer
	echo 0 >"$TRACE/stack_max_size"
}

# expect_room NAME: half of the stack is never used, by whomever.
expect_room() {
	[ -w $TRACER ] || {
		skip "$1" "this kernel has no stack tracer"
		return
	}
	diag "$1: $(<"$TRACE/stack_max_size") of $STACK bytes of stack"
	sed 's/^/# /' "$TRACE/stack_trace"
	expect_num "$1" "$(<"$TRACE/stack_max_size")" -le $((STACK / 2))
}

# stacked DEVICE: a loop device on XFS on it, in $LOOP
stacked() {
	local device=$1

	mkfs xfs "$device" && mount_at "$device" "on-${device##*/}" || return
	IMAGE=$TMP/on-${device##*/}/image
	truncate --size 320M "$IMAGE" && attach "$IMAGE" --direct-io=on
}

remove_dm() {
	[ ! -e "/dev/mapper/$1" ] || await dmsetup remove "$1"
}

# table NAME LINE: a dm device, to be let go of
table() {
	dmsetup create "$1" --table "$2" && defer remove_dm "$1"
}

# thin_crypt: dm-crypt on dm-thin on the spare disk, in $DEVICE
thin_crypt() {
	local sectors

	sectors=$(blockdev --getsz "$SPARE")
	wipefs --all --quiet "$SPARE" && dd if=/dev/zero of="$SPARE" bs=1M count=16 oflag=direct status=none || return
	table stack_meta "0 32768 linear $SPARE 0" && table stack_data "0 $((sectors - 32768)) linear $SPARE 32768" &&
		table stack_pool "0 $((sectors - 32768)) thin-pool /dev/mapper/stack_meta /dev/mapper/stack_data 128 0" &&
		dmsetup message stack_pool 0 "create_thin 0" &&
		table stack_thin "0 1600000 thin /dev/mapper/stack_pool 0" &&
		table stack_crypt "0 1600000 crypt aes-xts-plain64 $(printf '%064d' 7) 0 /dev/mapper/stack_thin 0" &&
		DEVICE=/dev/mapper/stack_crypt
}

load() {
	fio_verify "$1" --ioengine=libaio --iodepth=32 --rw=randrw --bssplit=4k/50:64k/50 --size=8M &&
		fio_verify "$1" --direct=0 --fsync=64 --rw=randwrite --bs=16k --offset=16M --size=4M
}

# tree: metadata of a file system on the device
tree() {
	mkfs ext4 "$1" && mount_at "$1" top && cp --archive "$SELFTESTS" "$TMP/top" && sync --file-system "$TMP/top" &&
		rm -r "$TMP/top/${SELFTESTS##*/}" && unmount "$TMP/top"
}

begin
thin_crypt || bail "no dm-thin and dm-crypt"
on_stack() {
	stacked "$DEVICE" && load "$LOOP" && tree "$LOOP"
}
expect_ok "loop on XFS on dm-crypt on dm-thin" on_stack
expect_room "loop on XFS on dm-crypt on dm-thin: half of the stack is left"
release

# stack_up N: loop devices, each on the one before, the last in $LOOP
stack_up() {
	local i

	attach "$IMAGE" --direct-io=on || return
	for ((i = 1; i < $1; i++)); do
		attach "$LOOP" --direct-io=on || return
	done
}
begin
lower xfs
image xfs 64M
three() {
	stack_up 3 && load "$LOOP" && tree "$LOOP"
}
expect_ok "three loop devices" three
expect_room "three loop devices: half of the stack is left"
release

# commands: without a plug, so that each device is called by the one above
commands() {
	dd if="$LOOP" of=/dev/null bs=4k count=64 iflag=direct status=none &&
		dd if=/dev/zero of="$LOOP" bs=4k count=64 oflag=direct status=none
}
begin
lower xfs
image xfs 64M
many() {
	stack_up $MANY && commands
}
expect_ok "$MANY loop devices" many
expect_room "$MANY loop devices: half of the stack is left"
release
