#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Attach and detach over and over, one after the other and many at once (F37): nothing is left, the lower file system and
# the module can be let go of.

. "$(dirname "$0")/lib.sh"

plan 10

lower tmpfs
image tmpfs 1M

cycles() {
	local i

	for ((i = 0; i < 100; i++)); do
		LOOP=$(losetup --find --show "$IMAGE") && detach "$LOOP" || return
		USED["$LOOP"]=1
	done
}

# devices: how many loop devices there are
devices() {
	find /sys/block -maxdepth 1 -name 'loop*' | wc -l
}

defer reload_default
declare -A USED
before=$(devices)
expect_ok "100 cycles" cycles
expect_eq "always the same device" 1 ${#USED[@]}
expect_eq "nothing bound" "" "$(losetup --list --noheadings)"
expect_eq "no device added" "$before" "$(devices)"

# With a scheduler the driver cannot see that nothing is under way, and waits in another way.
need_attach "$IMAGE"
echo mq-deadline >"/sys/block/${LOOP#/dev/}/queue/scheduler"
dd if=/dev/zero of="$LOOP" bs=64k count=16 status=none
expect_ok "with a scheduler" detach "$LOOP"
echo none >"/sys/block/${LOOP#/dev/}/queue/scheduler"

attach_many() {
	local i pids=() status=0

	for ((i = 0; i < 24; i++)); do
		cp --sparse=always "$IMAGE" "$LOWER/many$i"
	done
	for ((i = 0; i < 24; i++)); do
		losetup "/dev/loop$((100 + i))" "$LOWER/many$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=1
	done
	return $status
}

detach_many() {
	local i

	losetup --detach-all
	for ((i = 0; i < 24; i++)); do
		await unbound "/dev/loop$((100 + i))" || return
	done
}

expect_ok "24 at once" attach_many
expect_eq "24 bound" 24 "$(losetup --list --noheadings | wc -l)"
expect_ok "24 let go" detach_many
expect_ok "the lower file system is not held" umount "$LOWER"
udevadm settle # it opens each once more
expect_eq "the module is not held" 0 "$(await_unused && cat "/sys/module/$DRIVER/refcnt")"
