# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # $result is for guest.sh, which has made the others
# One run of each kind of workload: its result, one line of JSON, in $result. Sourced by guest.sh.

# Of the distribution of latencies, enough for a curve. fio takes 20.
percentiles=1:5:10:20:30:40:50:60:70:80:90:95:98:99:99.5:99.8:99.9:99.95:99.99:100

# count_kworkers: all that there are, and those that work or are blocked in their work. By builtins
# only: this goes on beside what is measured.
count_kworkers() {
	local file name state all=0 busy=0
	for file in /proc/[0-9]*/stat; do
		read -r _ name state _ 2>/dev/null <"$file" || continue
		[[ $name == '(kworker/'* ]] || continue
		all=$((all + 1))
		[[ $state == I ]] || busy=$((busy + 1))
	done
	echo "$all $busy"
}

# sample_kworkers SECONDS: twice within the run, the larger of each, to the file kworkers. The run
# has begun when fio's first job says so.
sample_kworkers() {
	local all=0 busy=0 a b
	echo "$all $busy" >kworkers
	while [[ ! -s measured.prerun.txt ]]; do
		sleep 0.1
	done
	for _ in 1 2; do
		sleep "$(awk -v s="$1" 'BEGIN { print s / 3 }')"
		read -r a b < <(count_kworkers)
		((all >= a)) || all=$a
		((busy >= b)) || busy=$b
		echo "$all $busy" >kworkers
	done
}

# kind_job ARGUMENTS: fio on $target. CPU time is read by fio's first job as it begins to do I/O
# and as it ends, so that starting fio does not count.
# shellcheck disable=SC2016 # expanded by fio's shell
kind_job() {
	local snapshot='read -r cpu </proc/stat; read -r up idle </proc/uptime; echo "$up $cpu"'
	local all busy sampler direct=1 status=0 args
	# The page cache is in the file itself here.
	[[ $subject != raw || $mode == dio ]] || direct=0
	args=${1//BATCH/$batch}
	args=${args//TRIM/$trim}
	cd /run/bench && rm -f ./* || return
	sample_kworkers "$runtime" &
	sampler=$!
	# shellcheck disable=SC2086 # words
	timeout --kill-after 10 $((runtime * 3 + 120)) fio --output=fio.json --output-format=json \
		--filename="$target" --allow_file_create=0 --direct=$direct --bs=4k --runtime="$runtime" --time_based \
		--norandommap --randrepeat=1 --random_generator=tausworthe64 --group_reporting --unified_rw_reporting=1 \
		--lat_percentiles=1 --clat_percentiles=0 --slat_percentiles=0 --percentile_list=$percentiles \
		$fio_options --name=measured --exec_prerun="$snapshot" --exec_postrun="$snapshot" $args >fio.log 2>&1 || status=$?
	kill "$sampler" 2>/dev/null
	wait "$sampler" 2>/dev/null
	if ((status != 0)) || [[ ! -s measured.postrun.txt ]]; then
		echo "bench: fio ended with status $status (124: it took too long)"
		cat fio.log
		[[ ! -f fio.json ]] || sed '/^{/,$d' fio.json
		return 1
	fi
	read -r all busy <kworkers
	result=$(
		printf '"kworkers":%s,"kworkers_busy":%s,"before":"%s","after":"%s","fio":' "$all" "$busy" \
			"$(<measured.prerun.txt)" "$(<measured.postrun.txt)"
		# What fio says goes there too, ahead of the JSON.
		sed -n '/^{/,$p' fio.json | tr --squeeze-repeats ' \n' ' '
	)
}

# kind_many ARGUMENTS: the same on $many devices at once, $target of them.
kind_many() {
	other_file && kind_job "$(sed "s|DEVICES|$target|; s|OTHER|$other|" <<<"$1")"
}

# kind_cycles: attaching and detaching $cycles devices, by the driver that is loaded.
kind_cycles() {
	local before after up cpu output
	cd /run/bench && rm -f ./* || return
	read -r cpu </proc/stat
	read -r up _ </proc/uptime
	before="$up $cpu"
	output=$(/dir/devices.py cycle "$cycles" "$image") || return
	read -r cpu </proc/stat
	read -r up _ </proc/uptime
	after="$up $cpu"
	result="\"kworkers\":0,\"kworkers_busy\":0,\"before\":\"$before\",\"after\":\"$after\",\"devices\":$output"
}
