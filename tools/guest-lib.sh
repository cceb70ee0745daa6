# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What runs inside a guest: making the scratch file system, loading the driver.
# Sourced by tools/guest-init, tools/check-guest and the soak; never run.

# make_work FS: an empty scratch file system of that kind at $WORK, which is
# unmounted and made anew if it is there already.
make_work() {
	local fs=$1
	mkdir -p "$WORK"
	if mountpoint -q "$WORK"; then
		umount "$WORK" || return
	fi
	modprobe --quiet "$fs" # some have a control node that mkfs looks for
	case $fs in
	tmpfs)
		mount -t tmpfs -o size=3G tmpfs "$WORK"
		return
		;;
	ext4) mkfs.ext4 -q -F "$WORK_DISK" || return ;;
	xfs) mkfs.xfs -q -f "$WORK_DISK" || return ;;
	btrfs) mkfs.btrfs -q -f "$WORK_DISK" || return ;;
	f2fs) mkfs.f2fs -q -f "$WORK_DISK" >/dev/null || return ;;
	*)
		echo "guest: FS=$fs is none of ext4, xfs, btrfs, f2fs, tmpfs" >&2
		return 1
		;;
	esac
	mount -t "$fs" "$WORK_DISK" "$WORK"
}

# load_driver DRIVER PARAMS: load it and make the other one unavailable, so that
# no alias brings in the wrong one.
load_driver() {
	local driver=$1 params
	read -ra params <<<"$2"
	case $driver in
	rust_loop) printf 'alias loop rust_loop\nblacklist loop\n' ;;
	loop) printf 'blacklist rust_loop\n' ;;
	none) printf 'blacklist loop\nblacklist rust_loop\n' ;;
	esac >/etc/modprobe.d/rust_loop.conf
	if [[ $driver != none ]]; then
		modprobe "$driver" "${params[@]}"
	fi
}

# scan_for_leaks COMMAND...: what kmemleak takes, one after the other. False if this kernel does not look for leaks.
scan_for_leaks() {
	local command

	for command; do
		echo "$command" >/sys/kernel/debug/kmemleak || return
	done 2>/dev/null
}

# forget_leaks: what the kernel has lost by itself until now (User Mode Linux: its consoles) is not looked at.
forget_leaks() {
	scan_for_leaks scan scan clear
}

# print_leaks: what has been lost since. False if this kernel does not look for leaks, or has given up. It takes for lost what it
# has not found in two scans, and is older than five seconds.
print_leaks() {
	sleep 6
	scan_for_leaks scan scan && cat /sys/kernel/debug/kmemleak
}
