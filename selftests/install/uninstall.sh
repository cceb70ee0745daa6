#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make uninstall: all is as before.

. "$(dirname "$0")/lib.sh"
tap_plan 8

expect_ok "make uninstall" make uninstall
expect_files "the files are those of before" /srv/files
expect_loop "$IN_TREE"
expect_eq "initramfs: loop again" "/loop.ko.xz" "$(initramfs_loop)"
expect_ok "once more: nothing to do" make uninstall
tap_end
