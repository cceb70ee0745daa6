#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In a guest that tools/bench has booted: measures workloads on one bed, all subjects in turn, round
# by round. Lines "## ..." are for tools/bench; a run is "## run {JSON}".
#   guest.sh BED ROUNDS SECONDS SUBJECTS UNIT...
# A unit is WORKLOAD@FILE-SYSTEM, its rounds are all in this boot.
# shellcheck disable=SC2153 # DRIVER: tools/guest-init
set -u
# shellcheck source=../../tools/guest-lib.sh
. /bed/tools/guest-lib.sh
# shellcheck source=lib.sh
. /dir/lib.sh
# shellcheck source=beds.sh
. /dir/beds.sh
# shellcheck source=subjects.sh
. /dir/subjects.sh
# shellcheck source=kinds.sh
. /dir/kinds.sh

bed=$1 rounds=$2 runtime=$3
read -ra subjects <<<"$4"
shift 4
read_workloads /dir/workloads

# Sizes; natively memory is scarce, and a file is written in no time.
disk_mb=3072 sparse_size=4G many=300 cycles=500 fio_options='' batch=''
if [[ $bed == uml ]]; then
	disk_mb=2048 sparse_size=1G
	# A look at the clock costs as much as a command there.
	fio_options='--clocksource=cpu --gtod_reduce=1'
	batch='--iodepth_batch_submit=16 --iodepth_batch_complete_min=16 --iodepth_batch_complete_max=16 --fixedbufs=1 --registerfiles=1'
fi

# A quiet guest: nobody looks at devices on events.
udevadm control --exit 2>/dev/null
cd / || exit
lower=/run/bench-lower
mkdir -p "$lower" /run/bench
umount "$WORK" 2>/dev/null
# The driver that tools/guest has loaded.
if [[ $DRIVER != none ]]; then
	loaded=$DRIVER
	unload || exit
fi
if [[ -f /dir/rublk ]]; then
	modprobe ublk_drv && cp /dir/rublk /run/rublk && chmod +x /run/rublk || exit
fi
make_bed "$bed" || {
	echo "bench: no bed $bed"
	exit 1
}

# prepare SUBJECT: the subject of a run, in $target, which may be many.
prepare() {
	local devices=() i
	if [[ $kind == cycles ]]; then
		# Devices of the run before would be found, and need not be made.
		unload || return
		case $1 in
		in-tree) use_driver loop ;;
		*) use_driver rust_loop "nowait=${1#rust_loop-}" ;;
		esac
		return
	elif [[ $kind != many ]]; then
		set_up "$1" "$mode"
		return
	fi
	case $1 in
	raw) devices=("$lower"/many*) ;;
	in-tree) use_driver loop ;;
	*) settable='' use_driver rust_loop "nowait=${1#rust_loop-}" ;;
	esac || return
	if [[ $1 != raw ]]; then
		mapfile -t devices < <(/dir/devices.py attach "$lower"/many*)
		attached=("${devices[@]}")
	fi
	((${#devices[@]} == many)) || return
	# By short names: fio takes 4096 characters.
	target='' && rm -rf /run/d && mkdir /run/d
	for i in "${!devices[@]}"; do
		ln -s "${devices[i]}" "/run/d/$i"
		target+=:/run/d/$i
	done
	target=${target#:}
}

tear_down() {
	case $kind in
	cycles) ;;
	many)
		((${#attached[@]} == 0)) || /dir/devices.py detach "${attached[@]}"
		attached=()
		;;
	*) take_down "$1" ;;
	esac
}

# run SUBJECT ROUND
run() {
	local target='' result='' trim status=1
	attached=()
	trim='--ioengine=libaio --rw=randtrim'
	# A file is discarded by its file system.
	[[ $1 != raw || $fs == bdev ]] || trim='--ioengine=falloc --rw=randtrim'
	if ! renew_backing "$backing" "$mode"; then
		echo "## failed $1 $2: no backing"
		return
	fi
	subject=$1
	prepare "$1" && "kind_$kind" "${fio_of[$workload]}" && status=0
	cd / || exit
	tear_down "$1" || status=1
	if ((status != 0)); then
		echo "## failed $1 $2"
		return
	fi
	printf '## run {"bed":"%s","fs":"%s","mode":"%s","workload":"%s","subject":"%s","round":%d,"cpus":%d,%s}\n' \
		"$bed" "$fs" "$mode" "$workload" "$1" "$2" "$(nproc)" "$result"
}

for unit; do
	workload=${unit%@*} fs=${unit#*@}
	mode=${mode_of[$workload]} backing=${backing_of[$workload]} kind=${kind_of[$workload]}
	echo "## begin $unit"
	if ! make_backing "$fs" "$backing"; then
		echo "## failed all 0: no $backing backing on $fs"
		continue
	fi
	for ((round = 0; round < rounds; round++)); do
		order=()
		for subject in "${subjects[@]}"; do
			fits "$subject" "$workload" || continue
			if ((round % 2)); then
				order=("$subject" "${order[@]}")
			else
				order+=("$subject")
			fi
		done
		for subject in "${order[@]}"; do
			run "$subject" "$round"
		done
	done
	echo "## end $unit"
done
cd / || exit
unload
mountpoint -q "$lower" && umount "$lower"
exit 0
