# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # DISKS is for the suites; DRIVER, PARAMS: tools/guest-init
# In the guest, below the functions of a suite (tools/suite puts the two together): runs
# "DRIVER:TEST" pairs and says "## result DRIVER TEST STATUS SECONDS" of each. A driver is
# loaded when the first pair of it comes.
#   CHECKOUT TYPE DIRECT_IO LIMIT DISKS PAIR...
set -u
# shellcheck source=../../tools/guest-lib.sh
. /bed/tools/guest-lib.sh

# What the functions of a suite may use.
export CHECKOUT=$1 TYPE=$2 DIRECT_IO=$3
limit=$4
read -ra DISKS <<<"$5"
shift 5

# attach FILE: the device it got.
attach() {
	local options=(--find --show)
	[[ -z $DIRECT_IO ]] || options+=(--direct-io=on)
	losetup "${options[@]}" "$1"
}

# A checkout is used at the path it was built at. A copy: it is written to, and read over and over.
mkdir -p "$CHECKOUT" && mount -t tmpfs tmpfs "$CHECKOUT" &&
	tar --create --directory /dir --exclude=./.git . | tar --extract --directory "$CHECKOUT" || exit

# leave: let go of the driver in use, 1 if something holds on to it.
leave() {
	local i
	suite_end
	losetup --detach-all
	for ((i = 0; i < 100; i++)); do
		[[ -d /sys/module/$driver ]] || return 0
		udevadm settle
		modprobe --quiet --remove "$driver" || sleep 0.1
	done
	echo "guest: $driver cannot be unloaded:"
	losetup --list
	return 1
}

if [[ $DRIVER != none ]]; then
	modprobe --remove "$DRIVER" || exit
fi
driver=none
if ! mountpoint -q "$WORK"; then
	make_work "$FS" || exit
fi
suite_setup || exit

# run_each TEST...: a suite that does better than one test at a time has a suite_run of its own.
run_each() {
	local test mark begin status
	for test; do
		echo "## begin $driver $test"
		mark="suite: $driver $test"
		echo "$mark" >/dev/kmsg
		begin=$SECONDS
		# shellcheck disable=SC2016 # expanded by the inner shell
		timeout --kill-after 20 "$limit" bash -c 'suite_test "$1"' bash "$test" 2>&1
		case $? in
		0) status=pass ;;
		77) status=skip ;;
		124 | 137) status=hung ;;
		*) status=fail ;;
		esac
		dmesg | sed "1,\\|$mark|d" >/run/kernel.log
		if ! /bed/tools/kernel-warnings /run/kernel.log && [[ $status == pass ]]; then
			status=warning
		fi
		echo "## result $driver $test $status $((SECONDS - begin))"
		# Nothing is as it was then: the rest gets a new guest.
		[[ $status != hung ]] || return 1
	done
}
if declare -F suite_test >/dev/null; then
	export -f suite_test
fi

while (($#)); do
	[[ $driver == none ]] || leave || exit
	driver=${1%%:*}
	load_driver "$driver" "$PARAMS" || exit
	suite_begin || exit
	tests=()
	while [[ ${1-} == "$driver:"* ]]; do
		tests+=("${1#*:}")
		shift
	done
	if declare -F suite_run >/dev/null; then
		suite_run "${tests[@]}" || exit
	else
		run_each "${tests[@]}" || exit
	fi
done
leave
