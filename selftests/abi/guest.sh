#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: runs the ABI steps on the in-tree loop driver, then on rust_loop, and compares.
#   guest.sh SEEDS STEPS BITS...           random programs, their length, word sizes
#   guest.sh run DRIVER BITS PROGRAM OUT   one program on one driver, anew
set -u
# shellcheck source=../../tools/guest-lib.sh
. /bed/tools/guest-lib.sh

memory=/run/abi-memory work4k=/run/abi-work4k

# The parameters that a program is for; of all others there are none.
declare -A parameters=([few]='max_loop=3 max_part=5' [many]='max_loop=0 max_part=255')

# unload: whichever is loaded, with no device bound.
unload() {
	local loaded i
	for loaded in rust_loop loop; do
		for ((i = 0; i < 100; i++)); do
			[[ -d /sys/module/$loaded ]] || break
			modprobe --quiet --remove "$loaded" || sleep 0.1
		done
	done
}

# use DRIVER PARAMS: in place of whichever is loaded.
use() {
	# What a program that was ended left bound goes at its last close.
	losetup --detach-all
	unload
	load_driver "$1" "$2"
}

# steps DRIVER BITS PROGRAM OUT
steps() {
	timeout --kill-after 10 900 "/dir/abi$2" run "$1" "$WORK" "$memory" "$work4k" "$SPARE" "$disk4k" <"$3" >"$4"
}

# loads DRIVER PROGRAM OUT: steps that load it with the parameters they name.
loads() {
	local driver=$1 step result name
	while read -r step; do
		unload
		if result=$(load_driver "$driver" "${step#load}" 2>&1); then
			result=$(cd /sys/block && echo loop*)
			for name in max_loop max_part hw_queue_depth; do
				result+=" $name=$(<"/sys/module/$driver/parameters/$name")"
			done
		fi
		printf '%s\tresult=%s\n' "$step" "${result##*: }"
	done <"$2" >"$3"
}

if [[ $1 == run ]]; then
	disk4k=$(</run/abi-disk4k)
	use "$2" '' && steps "$2" "$3" "$4" "$5"
	exit
fi

seeds=$1 count=$2
shift 2

# Most of the time would go by in waiting for grace periods of RCU.
echo 1 >/sys/kernel/rcu_expedited
echo 0 >/sys/module/rcutree/parameters/jiffies_till_first_fqs
echo 1 >/sys/module/rcutree/parameters/jiffies_till_next_fqs

# Two disks of 4096 bytes a sector: one to bind to, one for a file system whose files want direct
# I/O in such blocks.
modprobe sd_mod && modprobe scsi_debug sector_size=4096 dev_size_mb=32 add_host=2 per_host_store=1 || exit
for ((i = 0; i < 100; i++)); do
	disks=(/sys/block/sd*)
	[[ ! -e ${disks[1]-} || ! -b /dev/${disks[1]##*/} ]] || break
	sleep 0.1
done
udevadm settle
disk4k=/dev/${disks[0]##*/}
echo "$disk4k" >/run/abi-disk4k
mkdir -p "$memory" "$work4k"
mount -t tmpfs tmpfs "$memory" || exit
mkfs.ext4 -q -F "/dev/${disks[1]##*/}" && mount "/dev/${disks[1]##*/}" "$work4k" || exit
# Who looks at devices on events would be one opener more, now and then.
udevadm settle
udevadm control --exit

results=$(mktemp -d)
grep -v '^#' /dir/loading >"$results/64-loading"
programs=(table)
for seed in $seeds; do
	programs+=("random$seed")
done
# Those of equal parameters one after the other.
programs+=("${!parameters[@]}")
runs=(64-loading)
for program in "${programs[@]}"; do
	for bits; do
		case $program in
		table) call=(table) ;;
		random*) call=(random "${program#random}" "$count") ;;
		*) call=(parameters) ;;
		esac
		"/dir/abi$bits" "${call[@]}" >"$results/$bits-$program"
		runs+=("$bits-$program")
	done
done

for driver in loop rust_loop; do
	loaded=none
	for run in "${runs[@]}"; do
		begin=$SECONDS bits=${run%%-*} program=${run#*-}
		if [[ $program == loading ]]; then
			loads "$driver" "$results/$run" "$results/$driver-$run"
		else
			wanted=${parameters[$program]-}
			[[ $wanted == "$loaded" ]] || use "$driver" "$wanted" || exit
			loaded=$wanted
			steps "$driver" "$bits" "$results/$run" "$results/$driver-$run"
		fi
		echo "# $driver, $bits bits, $program: status $?, $((SECONDS - begin)) s"
	done
done
[[ ! -e /dir/transcripts ]] || tail -n +1 "$results"/*loop-*
/dir/abi64 report /dir/expected-differences "$results" /dir/guest.sh "${runs[@]}"
