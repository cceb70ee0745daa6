#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stress-ng's loop stressor: four workers take, bind, change, let go of and remove devices, one another's too (F20, F28); then
# the same on the in-tree driver in this one's place, and back, so that a difference is the driver's and not the stressor's.

. "$(dirname "$0")/lib.sh"
# shellcheck source=../tools/guest-lib.sh
. /bed/tools/guest-lib.sh

plan 7

OPS=16

# swap FROM TO PARAMETERS
swap() {
	await modprobe --remove "$1" && load_driver "$2" "$3" && udevadm settle && [ -d "/sys/module/$2" ]
}

back() {
	[ -d "/sys/module/$DRIVER" ] || swap loop "$DRIVER" "${PARAMS:-}"
}

# It exits 0 even if it was skipped or found no /dev/loop-control, and says that these passed. So its operations are counted,
# and change events looked for, which a device has only if it is bound. The kernel's lines on a new capacity are held back if
# there are many.
stress() {
	local monitor status

	udevadm monitor --kernel --subsystem-match=block >"$TMP/events" 2>&1 &
	monitor=$!
	await grep --quiet KERNEL "$TMP/events" || echo "no monitor"
	stress-ng --loop 4 --loop-ops $OPS --temp-path "$DATA" --metrics >"$TMP/stress" 2>&1
	status=$?
	await grep --quiet 'change .*/loop' "$TMP/events" || echo "no device was bound"
	kill $monitor
	cat "$TMP/stress"
	[ $status = 0 ] && grep --quiet 'passed: 4: loop (4)$' "$TMP/stress" &&
		failing grep --quiet 'fail:' "$TMP/stress" &&
		awk -v ops=$OPS '/metrc:/ && $4 == "loop" { seen = $5 } END { exit !(seen >= ops) }' "$TMP/stress" &&
		grep --quiet 'change .*/loop' "$TMP/events"
}

# Whoever opened a device meanwhile may be the last one to close it.
nothing_bound() {
	local list

	list=$(losetup --list --noheadings)
	[ -z "$list" ] || failing echo "$list"
}

defer back
expect_ok "all operations are done" stress
expect_ok "nothing is left bound" await nothing_bound
rust_only "the in-tree driver takes its place" ||
	expect_ok "the in-tree driver takes its place" swap "$DRIVER" loop ""
rust_only "in-tree: all operations are done" || expect_ok "in-tree: all operations are done" stress
rust_only "in-tree: nothing is left bound" || expect_ok "in-tree: nothing is left bound" await nothing_bound
rust_only "the driver comes back" || expect_ok "the driver comes back" swap loop "$DRIVER" "${PARAMS:-}"
truncate --size 1M "$DATA/image"
expect_ok "and works" attach "$DATA/image"
