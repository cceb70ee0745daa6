# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
# The table of workloads, as host and guest read it. Sourced by tools/bench and by guest.sh.

# All subjects, in the order in which even rounds take them; odd ones take it backwards. So a round
# changes the driver once, and a drift over a round cancels out.
readonly all_subjects='raw dm-linear ublk in-tree rust_loop-auto rust_loop-always rust_loop-reads rust_loop-never'

# read_workloads TABLE: into the arrays below, by name; the names, in order, in $workload_names.
declare -A beds_of=() fs_of=() mode_of=() backing_of=() kind_of=() quick_of=() fio_of=()
workload_names=()
read_workloads() {
	local name beds fs mode backing kind quick fio
	while read -r name beds fs mode backing kind quick fio; do
		[[ -n $name && $name != '#'* ]] || continue
		workload_names+=("$name")
		beds_of[$name]=${beds//,/ } fs_of[$name]=${fs//,/ } quick_of[$name]=${quick//,/ }
		mode_of[$name]=$mode backing_of[$name]=$backing kind_of[$name]=$kind fio_of[$name]=$fio
	done <"$1"
}

# fits SUBJECT NAME FS: whether that subject can carry out the workload.
fits() {
	case $1 in
	# It maps what is allocated, once, and bypasses the page cache. That of a whole disk is
	# a mapping of nothing.
	dm-linear) [[ ${mode_of[$2]} == dio && ${backing_of[$2]} =~ ^(full|half)$ ]] ;;
	# A process each: hundreds of them measure the scheduler.
	ublk) [[ ${kind_of[$2]} == job ]] ;;
	# Nothing is attached.
	raw) [[ ${kind_of[$2]} != cycles ]] ;;
	esac
}
