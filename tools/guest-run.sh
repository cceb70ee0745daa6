# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What tools/guest and tools/uml share: the folder of a run, what the guest is told,
# and how it has ended. Sourced after lib.sh by these two only, whose options it
# reads: driver, fs, mode, script, dir, log, expect_warnings.
# shellcheck disable=SC2154

check_options() {
	[[ $driver =~ ^(rust_loop|loop|none)$ ]] || die "DRIVER=$driver is none of rust_loop, loop, none"
	[[ $fs =~ ^(ext4|xfs|btrfs|f2fs|tmpfs)$ ]] || die "FS=$fs is none of ext4, xfs, btrfs, f2fs, tmpfs"
	[[ $mode == shell || -n $script ]] || die "no script to run: give SCRIPT=file"
	[[ $mode == shell || -r $script ]] || die "cannot read the script $script"
	[[ -z $dir || -d $dir ]] || die "DIR=$dir is no folder"
	need_root
}

# make_run: the folder of this run, $run, which goes when this process does. In it
# are bed/, where guest and host leave each other files, layer/ and an empty folder.
make_run() {
	local stale
	mkdir -p "$cache/run"
	# What a killed run left: nobody holds its lock any more.
	for stale in "$cache"/run/*/lock; do
		if [[ -e $stale ]] && flock --nonblock "$stale" true; then
			discard "${stale%/lock}"
		fi
	done
	run=$(mktemp -d "$cache/run/XXXXXX")
	exec {run_fd}>"$run/lock"
	flock "$run_fd"
	trap 'discard "$run"' EXIT
	mkdir -p "$run/bed" "$run/layer" "$run/empty"
	cp -a "$top/tools" "$run/bed/"
	[[ -z $script ]] || cp "$script" "$run/bed/script"
}

# tell NAME... -- ARG...: variables of these names, and the script's arguments, for
# tools/guest-init.
tell() {
	local name
	while [[ $1 != -- ]]; do
		name=$1
		printf '%s=%q\n' "${name^^}" "${!name}"
		shift
	done
	shift
	printf 'HOST_TERM=%q\nHOST_SIZE=%q\n' "${TERM:-dumb}" "$(stty size 2>/dev/null || true)"
	printf 'ARGS=('
	(($# == 0)) || printf '%q ' "$@"
	printf ')\n'
} >"$run/bed/config"

# conclude HOW: ends with the status the guest left; HOW its machine ended is told
# if there is none. Its console is in $run/console.
conclude() {
	local status
	if [[ -f $run/bed/kernel.log ]]; then
		cp "$run/bed/kernel.log" "$run/log"
	else
		cp "$run/console" "$run/log"
	fi
	[[ -z $log ]] || cp "$run/log" "$log"
	if [[ ! -s $run/bed/status ]]; then
		say "the guest ended without a status ($1), its console ends:"
		tail -n 60 "$run/console" >&2
		exit 125
	fi
	status=$(<"$run/bed/status")
	if [[ -z $expect_warnings ]] && ! "$top/tools/kernel-warnings" "$run/log" >&2; then
		say "kernel warnings, the run has failed"
		((status != 0)) || status=1
	fi
	exit "$status"
}
