# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # $image, $disk, $lower: guest.sh and beds.sh
# The subjects: what stands between fio and the image. Each is set up before a run and taken down
# after it. Sourced by guest.sh.

loaded=''
# settable: whether a mode is set through sysfs; else by loading the module anew.
settable=''

# unload: the loop driver that is there, on which nothing is bound any more.
unload() {
	local i
	[[ -n $loaded ]] || return 0
	for ((i = 0; i < 100; i++)); do
		if modprobe --quiet --remove "${loaded%% *}"; then
			loaded=''
			return
		fi
		sleep 0.1
	done
	echo "bench: $loaded cannot be unloaded"
	return 1
}

# expedite 0|1: grace periods. A kernel for one CPU has none to wait for, and refuses.
expedite() {
	{ echo "$1" >/sys/kernel/rcu_expedited; } 2>/dev/null || true
}

# use_driver DRIVER [PARAMETERS]: have it loaded, without devices.
use_driver() {
	[[ $loaded != "$*" ]] || return 0
	# Grace periods are waited for in loading and unloading, and are nothing to measure.
	expedite 1
	unload && load_driver "$1" "max_loop=0 ${2-}" && loaded="$*"
	local status=$?
	expedite 0
	return $status
}

# attach FILE MODE: a loop device on it, in $target.
attach() {
	local dio=off flag=0
	[[ $2 != dio ]] || dio=on flag=1
	target=$(losetup --find --show --direct-io=$dio "$1") && [[ $(<"/sys/block/${target##*/}/loop/dio") == "$flag" ]]
}

# extents FILE DEVICE: a table of dm-linear that maps FILE's extents, in sectors.
extents() {
	filefrag -s -b512 -v "$1" | awk -v device="$2" '
		$1 ~ /^[0-9]+:$/ {
			gsub(/[.:]/, " ")
			print $2, $6, "linear", device, $4
		}'
}

# set_up SUBJECT MODE: makes it, with what fio shall use in $target.
set_up() {
	local subject=$1 mode=$2 policy
	case $subject in
	raw) target=$image ;;
	in-tree) use_driver loop && attach "$image" "$mode" ;;
	rust_loop-*)
		policy=${subject#rust_loop-}
		use_policy "$policy" && attach "$image" "$mode" && set_policy "$policy" "$mode"
		;;
	dm-linear)
		# Neither knows of the other's claim to the disk, so one at a time.
		extents "$image" "$disk" >/run/extents && umount "$lower" && target=$(map bench-linear </run/extents)
		;;
	ublk) ublk_set_up "$mode" ;;
	esac
}

# take_down SUBJECT
take_down() {
	local i
	case $1 in
	in-tree | rust_loop-*)
		losetup --detach "$target"
		for ((i = 0; i < 100; i++)); do
			[[ -e /sys/block/${target##*/}/loop/backing_file ]] || return 0
			sleep 0.05
		done
		echo "bench: $target stays bound"
		return 1
		;;
	dm-linear)
		# Also if it was not made: the file system is needed by the others.
		dmsetup remove --noudevsync --retry bench-linear
		mountpoint -q "$lower" || mount "$disk" "$lower"
		;;
	ublk) /run/rublk del --number 0 >/run/ublk.log 2>&1 || cat /run/ublk.log ;;
	esac
}

# use_policy POLICY: rust_loop, loaded with it if it cannot be set later.
use_policy() {
	if [[ $settable && $loaded == rust_loop* ]]; then
		return 0
	fi
	use_driver rust_loop "nowait=$1"
}

# set_policy POLICY MODE: of the device that was just attached, if there is an attribute for it.
set_policy() {
	local attribute=/sys/block/${target##*/}/loop/nowait
	if [[ -z $settable && $(stat --format %A "$attribute") == ?*w* ]]; then
		settable=1
	fi
	[[ $(<"$attribute") == "$1" ]] || echo "$1" >"$attribute"
}

ublk_set_up() {
	local options=() i
	[[ $1 == dio ]] || options=(--buffered-io)
	/run/rublk add loop --number 0 --file "$image" --queue "$(nproc)" --depth 128 "${options[@]}" >/run/ublk.log 2>&1
	for ((i = 0; i < 100; i++)); do
		if [[ -b /dev/ublkb0 ]]; then
			target=/dev/ublkb0
			return
		fi
		sleep 0.1
	done
	cat /run/ublk.log
	return 1
}
