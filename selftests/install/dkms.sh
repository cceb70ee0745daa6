#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# DKMS from the tree: the kernels it leaves alone, add, build with a build folder made on the way, install, remove.

. "$(dirname "$0")/lib.sh"
tap_plan 14

files >"$TMP/before"
# shellcheck disable=SC2034 # kernelver: dkms.conf
NAME=$(kernelver=$KVER && . ./dkms.conf && echo "$PACKAGE_NAME/$PACKAGE_VERSION")

# excluded KVER CONFIG: DKMS says that the module is not for such a kernel.
excluded() {
	local build=/lib/modules/$1/build status

	mkdir -p "$build/include"
	echo "$2" >"$build/.config"
	dkms build "$NAME" -k "$1"
	status=$?
	rm -r "/lib/modules/$1"
	[ "$status" -eq 77 ]
}

built() {
	dkms build "$NAME" -k "$KVER" && return
	cat "/var/lib/dkms/$NAME/build/make.log"
	return 1
}

expect_ok "dkms add" dkms add .
expect_ok "not for another series" excluded 6.12.1-amd64 CONFIG_RUST=y
expect_ok "not for a kernel without Rust" excluded 7.3.9-amd64 CONFIG_BLOCK=y
expect_ok "dkms build" built
expect_ok "dkms install" dkms install "$NAME" -k "$KVER"
expect_loop "$(echo "/lib/modules/$KVER/updates/dkms/rust_loop.ko"*)"
cp /srv/rust_loop.ko .
expect_refused "make install beside it" "DKMS has installed" make install

expect_ok "dkms remove" dkms remove "$NAME" --all
# DKMS leaves its empty folders.
find /usr/lib/modules -type d -empty -path '*/updates*' -delete
expect_files "the files are those of before" "$TMP/before"
expect_ok "no cache is left" test ! -e /var/cache/rust_loop
expect_eq "modprobe loop: $IN_TREE" "$IN_TREE" "$(would_load loop)"
tap_end
