#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make install: what it refuses, what it does.

. "$(dirname "$0")/lib.sh"
tap_plan 12

expect_refused "no module is built" "run make first" make install
cp /srv/rust_loop.ko .
expect_refused "not root" "run it as root" setpriv --reuid 65534 make install
expect_refused "built for another kernel" "is built for $KVER, not for 7.3.99" make install KVER=7.3.99

expect_ok "make install" make install
expect_eq "the module is there" "$(sha256sum </srv/rust_loop.ko)" "$(sha256sum <"/lib/modules/$KVER/updates/rust_loop.ko")"
expect_loop "/lib/modules/$KVER/updates/rust_loop.ko"
expect_ok "depmod: the node is made at boot" \
	grep --quiet --line-regexp 'rust_loop loop-control c10:237' "/lib/modules/$KVER/modules.devname"
expect_eq "initramfs: rust_loop, and not loop" "/rust_loop.conf /rust_loop.ko" "$(initramfs_loop)"

expect_ok "make install DESTDIR=" make install DESTDIR="$TMP/staged"
tap_end
