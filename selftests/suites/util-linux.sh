# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154 # CHECKOUT, TYPE, DISKS, driver, limit: guest.sh
# The tests of util-linux that use loop devices, with the programs of the checkout. Groups:
# loops, all of those; any folder of tests/ts. Its libtool has to link statically
# (configure --disable-shared), else the programs look for libraries where they were built.

suite_built() {
	[[ -x $1/losetup && -x $1/mount && -x $1/test_sysinfo ]] ||
		die "util-linux in $1 is not built: run ./configure --disable-shared, make and make check-programs there"
}

suite_disks() { :; }

# suite_tests CHECKOUT TYPE GROUP|TEST...
suite_tests() {
	local checkout=$1 name
	shift 2
	(($#)) || set -- loops
	for name; do
		case $name in
		loops)
			(cd "$checkout/tests/ts" && find . -type f -executable ! -name '*.*' -exec \
				grep -lE 'ts_check_losetup|ts_device_init|ts_losetup|TS_CMD_LOSETUP|losetup' {} + | sed 's,^\./,,' | sort)
			;;
		*/*) echo "$name" ;;
		*) (cd "$checkout/tests/ts" && find "$name" -type f -executable ! -name '*.*' | sort) ;;
		esac
	done
}

suite_setup() { :; }
suite_begin() { :; }

suite_test() {
	cd "$CHECKOUT/tests" || return
	"./ts/$1" --force --show-diff >/tmp/util-linux.out 2>&1
	local status=$?
	cat /tmp/util-linux.out
	if ((status)) || grep -qE '\bFAILED\b' <(grep -v 'KNOWN FAILED' /tmp/util-linux.out); then
		return 1
	fi
	# Nothing of it has run.
	if grep -q SKIPPED /tmp/util-linux.out && ! grep -q '\bOK\b' /tmp/util-linux.out; then
		return 77
	fi
}

suite_end() { :; }
