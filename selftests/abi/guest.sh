#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: runs the ABI steps on the in-tree loop driver, then on rust_loop, and compares.
#   guest.sh SEEDS STEPS BITS...           random programs, their length, word sizes
#   guest.sh run DRIVER BITS PROGRAM OUT   one program on one driver, anew
set -u
# shellcheck source=../../tools/guest-lib.sh
. /bed/tools/guest-lib.sh

memory=/run/abi-memory

# use DRIVER: in place of whichever is loaded.
use() {
	local loaded i
	# What a program that was ended left bound goes at its last close.
	losetup --detach-all
	for loaded in rust_loop loop; do
		for ((i = 0; i < 100; i++)); do
			[[ -d /sys/module/$loaded ]] || break
			modprobe --quiet --remove "$loaded" || sleep 0.1
		done
	done
	load_driver "$1" ''
}

# steps DRIVER BITS PROGRAM OUT
steps() {
	timeout --kill-after 10 200 "/dir/abi$2" run "$1" "$WORK" "$memory" "$SPARE" "$disk4k" <"$3" >"$4"
}

if [[ $1 == run ]]; then
	disk4k=$(</run/abi-disk4k)
	use "$2" && steps "$2" "$3" "$4" "$5"
	exit
fi

seeds=$1 count=$2
shift 2
modprobe sd_mod && modprobe scsi_debug sector_size=4096 dev_size_mb=16 || exit
udevadm settle
disk4k=''
for ((i = 0; i < 100; i++)); do
	for block in /sys/block/sd*; do
		[[ ! -e $block ]] || disk4k=/dev/${block##*/}
	done
	[[ ! -b $disk4k ]] || break
	sleep 0.1
done
[[ -b $disk4k ]] || exit
echo "$disk4k" >/run/abi-disk4k
mkdir -p "$memory"
mount -t tmpfs tmpfs "$memory" || exit
# Who looks at devices on events would be one opener more, now and then.
udevadm settle
udevadm control --exit

results=$(mktemp -d)
programs=(table)
/dir/abi64 table >"$results/table"
for seed in $seeds; do
	/dir/abi64 random "$seed" "$count" >"$results/random$seed"
	programs+=("random$seed")
done

runs=()
for bits; do
	for program in "${programs[@]}"; do
		runs+=("$bits-$program")
	done
done
for driver in loop rust_loop; do
	use "$driver" || exit
	for run in "${runs[@]}"; do
		begin=$SECONDS
		steps "$driver" "${run%%-*}" "$results/${run#*-}" "$results/$driver-$run"
		echo "# $driver, ${run%%-*} bits, ${run#*-}: status $?, $((SECONDS - begin)) s"
	done
done
[[ ! -e /dir/transcripts ]] || tail -n +1 "$results"/*loop-*
/dir/abi64 report /dir/expected-differences "$results" /dir/guest.sh "${runs[@]}"
