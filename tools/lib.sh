# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What every host side tool shares: where things are, how to speak, how to run a
# command in the Debian root. Sourced, never run.

# Kernel series the driver is written for.
readonly series=7.3

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly top
cache=${RUST_LOOP_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rust_loop}
[[ $cache == /* ]] || cache=$PWD/$cache
readonly cache
readonly root=$cache/root

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die CAUSE-AND-REMEDY: one line, then out.
die() {
	say "$@"
	exit 1
}

need_root() {
	[[ $(id -u) == 0 ]] ||
		die "this step mounts and enters $root, which needs root: run it again as root"
}

# newest_kver [ROOT]: release of the newest kernel of our series in ROOT.
newest_kver() {
	local dir
	for dir in "${1-}/usr/lib/modules/$series."*; do
		[[ ! -e $dir/kernel ]] || printf '%s\n' "${dir##*/}"
	done | sort -V | tail -n 1
}

# root_kver: the same for the Debian root, which has to be there.
root_kver() {
	local kver
	kver=$(newest_kver "$root")
	[[ -n $kver ]] || die "no $series kernel in $root: run make setup"
	printf '%s\n' "$kver"
}

# lock NAME [--shared]: hold the cache's lock of that name until this process and
# its children have ended, so that what an interrupted run left behind is at rest.
lock() {
	local fd options=("${@:2}")
	mkdir -p "$cache/lock"
	exec {fd}>"$cache/lock/$1"
	if ! flock "${options[@]}" --nonblock "$fd"; then
		say "waiting for another run that holds $cache/lock/$1"
		flock "${options[@]}" "$fd"
	fi
}

# discard DIR: remove DIR; never leaves the file system it is on.
discard() { rm -rf --one-file-system -- "$@"; }

# attended COMMAND: run COMMAND such that it dies when this shell does.
attended() { setpriv --pdeathsig KILL -- "$@"; }

# Enter a Debian root and run a command there, in /checkout, which is this checkout,
# read-only. To be run in a mount namespace of its own, with which the mounts go,
# however the command ends: bash -c "$enter" NAME ROOT CACHE CHECKOUT COMMAND...
# shellcheck disable=SC2016 # expanded by the inner shells
readonly enter='
	root=$1 cache=$2 top=$3
	shift 3
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/tmp"
	mkdir -p "$root$cache" "$root/checkout"
	[[ -z $cache ]] || mount --bind "$cache" "$root$cache"
	mount --bind "$top" "$root/checkout"
	mount -o remount,bind,ro "$root/checkout"
	exec chroot "$root" /usr/bin/env -i \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LANG=C.UTF-8 ${cache:+RUST_LOOP_CACHE="$cache"} \
		sh -euc "cd /checkout; exec \"\$@\"" sh "$@"'

# in_root COMMAND [ARG...]: run COMMAND in the Debian root. The cache is at its own
# path, so that paths a build records hold outside too.
in_root() {
	need_root
	attended unshare --mount --propagation private -- \
		bash -euc "$enter" in_root "$root" "$cache" "$top" "$@"
}

# over DIR COMMAND [ARG...]: run COMMAND with the Debian root at DIR/root, where it
# can be written to: that lands in DIR/upper, and the root stays as it is.
over() {
	local dir=$1
	shift
	need_root
	mkdir -p "$dir"/{upper,work,root}
	# shellcheck disable=SC2016 # expanded by the inner shell
	attended unshare --mount --propagation private -- bash -euc '
		mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
		shift 2
		exec "$@"' over "$dir" "$root" "$@"
}

# in_overlay DIR COMMAND [ARG...]: run COMMAND in that root; the cache is not there.
in_overlay() {
	local dir=$1
	shift
	over "$dir" bash -euc "$enter" in_overlay "$dir/root" '' "$top" "$@"
}
