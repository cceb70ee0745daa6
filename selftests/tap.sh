# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How a selftest says what it has seen: TAP. Sourced by lib.sh, and by the selftests that run elsewhere than in a guest
# with a driver loaded. $TMP is theirs.

TAP_PLAN=0
TAP_POINT=0
TAP_FAILED=0

# tap_plan N: points of the whole selftest.
tap_plan() {
	TAP_PLAN=$1
	echo "TAP version 13"
	echo "1..$TAP_PLAN"
}

# tap_end: the end of the selftest; its exit status is the one the selftest has earned.
tap_end() {
	if [ "$TAP_PLAN" -gt 0 ] && [ "$TAP_POINT" -ne "$TAP_PLAN" ]; then
		diag "planned $TAP_PLAN points, made $TAP_POINT"
		TAP_FAILED=1
	fi
	return $TAP_FAILED
}

# skip_all REASON: the whole selftest does not apply here. Before tap_plan.
skip_all() {
	[ "$TAP_PLAN" -eq 0 ] || bail "skip_all '$1' after the plan"
	echo "1..0 # SKIP $1"
	exit 0
}

diag() {
	echo "# ${*//$'\n'/$'\n'# }"
}

bail() {
	TAP_FAILED=1
	echo "Bail out! $*"
	exit 1
}

ok() {
	TAP_POINT=$((TAP_POINT + 1))
	echo "ok $TAP_POINT - $1"
}

# not_ok NAME [LINE]...
not_ok() {
	local line

	TAP_POINT=$((TAP_POINT + 1))
	TAP_FAILED=1
	echo "not ok $TAP_POINT - $1"
	shift
	for line; do
		diag "$line"
	done
}

# skip NAME REASON
skip() {
	TAP_POINT=$((TAP_POINT + 1))
	echo "ok $TAP_POINT - $1 # SKIP $2"
}

# expect_eq NAME EXPECTED SEEN
expect_eq() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2" "seen:     $3"
	fi
}

# expect_num NAME A OP B: OP as in test(1).
expect_num() {
	if test "$2" "$3" "$4"; then
		ok "$1"
	else
		not_ok "$1" "expected: $3 $4" "seen:     $2"
	fi
}

# expect_ok NAME COMMAND...: a command or function that exits 0. Its output is shown only if it does not.
expect_ok() {
	local name=$1 status

	shift
	"$@" >"$TMP/out" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		ok "$name"
	else
		not_ok "$name" "exit status $status of: $*" "$(tail -n 20 "$TMP/out")"
	fi
	return $status
}

# expect_error NAME ERRNO[|ERRNO] COMMAND...: a command that fails and says ERRNO, as ioctl.py does.
expect_error() {
	local name=$1 errno=$2 seen status

	shift 2
	seen=$("$@" 2>"$TMP/out")
	status=$?
	if [ $status -ne 0 ] && [[ "|$errno|" == *"|$seen|"* ]]; then
		ok "$name"
	else
		not_ok "$name" "expected: $errno" "seen:     $seen (exit status $status)" "$(cat "$TMP/out")"
	fi
}
