# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the selftests of installing share. They run in a Debian root of their own (tools/check-install), not in a guest:
# the tree is in /srv/rust_loop, its module, built, in /srv/rust_loop.ko, and the kernel that runs is the host's.

set -u
cd /srv/rust_loop || exit

# shellcheck source=../tap.sh
. /srv/rust_loop/selftests/tap.sh

TMP=$(mktemp -d)
KVER=$(modinfo -F vermagic /srv/rust_loop.ko | cut -d ' ' -f 1)
export KVER
# shellcheck disable=SC2034 # for those that source this
IN_TREE=/lib/modules/$KVER/kernel/drivers/block/loop.ko.xz

# files: all that installing may change, with checksums.
files() {
	find /usr/lib/modules /etc/modprobe.d -type f -exec sha256sum {} + | sort --key 2
	find /usr/lib/modules /etc/modprobe.d ! -type f -printf '%y %p %l\n' | sort
}

# expect_files NAME LIST: nothing is different from what files gave.
expect_files() {
	files >"$TMP/files"
	expect_ok "$1" diff "$2" "$TMP/files"
}

# would_load NAME: the modules that modprobe loads for a module's name or an alias, as the kernel asks for it.
would_load() {
	modprobe --set-version "$KVER" --use-blacklist --dry-run --verbose "$1" | sed 's/^insmod //; s/ *$//'
}

# expect_loop FILE: every way to a loop driver leads to this module only.
expect_loop() {
	local name

	for name in loop block-major-7-0 char-major-10-237 devname:loop-control; do
		expect_eq "modprobe $name: ${1##*/}" "$1" "$(would_load $name)"
	done
}

# expect_refused NAME PATTERN COMMAND...: fails with this one line, but for what make itself says, and changes nothing.
expect_refused() {
	local name=$1 pattern=$2

	shift 2
	files >"$TMP/refused"
	if "$@" >"$TMP/out" 2>&1; then
		not_ok "$name" "succeeds"
	elif [ "$(grep -vc '^make' "$TMP/out")" != 1 ] || ! grep -q -e "$pattern" "$TMP/out"; then
		not_ok "$name" "expected: one line with $pattern" "$(cat "$TMP/out")"
	else
		expect_files "$name" "$TMP/refused"
	fi
}

# initramfs_loop: the loop drivers in the initramfs, and our configuration.
initramfs_loop() {
	lsinitramfs "/boot/initrd.img-$KVER" | grep -oE '(/rust_|/)loop\.(ko.*|conf)$' | sort | xargs
}
