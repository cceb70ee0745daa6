#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A limit of bandwidth on the disk below (io.max) holds the submitter back, and no one else, whether his commands are tried, go to
# a work item, or are written back from the page cache of the file; and a thousand cgroups that come, write and go leave
# nothing behind (F80).

. "$(dirname "$0")/lib.sh"

plan 7

DISK=$(stat --format=%Hr:%Lr "$SPARE")
# Of the disk below, in bytes a second; what is written, which takes four seconds; and milliseconds that are less than that.
RATE=$((4 << 20))
TOTAL=$((16 << 20))
LEAST=3000
SHORT=1000

new_cgroup

# milliseconds COMMAND...: which it takes
milliseconds() {
	local begin=$EPOCHREALTIME end

	"$@" >"$TMP/out" 2>&1 || cat "$TMP/out" >&2
	end=$EPOCHREALTIME
	echo $(((${end/[.,]/} - ${begin/[.,]/}) / 1000))
}

writes() {
	dd if=/dev/zero of="$LOOP" bs=256k count=$((TOTAL >> 18)) oflag=direct conv=fsync,notrunc status=none
}

lower ext4
IMAGE=$LOWER/image
echo "$DISK wbps=$RATE" >"$CGROUP/io.max" || bail "no io.max"
for way in tried worker page-cache; do
	# Whose inode it is says whose write-back it is.
	rm -f "$IMAGE"
	within "$CGROUP" dd if=/dev/zero of="$IMAGE" bs=1M count=$((TOTAL >> 20)) status=none
	sync "$IMAGE"
	dio=on
	[ $way != page-cache ] || dio=off
	need_attach "$IMAGE" --direct-io=$dio
	udevadm settle
	[ "$DRIVER" = loop ] || {
		mode=always
		[ $way != worker ] || mode=never
		echo $mode >"/sys/block/${LOOP#/dev/}/loop/nowait"
	}
	expect_num "$way: held back, milliseconds" "$(milliseconds within "$CGROUP" writes)" -ge $LEAST
	# What is written back is on the account of the inode's owner, whoever wrote it.
	[ $way = page-cache ] || {
		before=$(charged wbytes)
		[ "$before" -ge $TOTAL ] || bail "no io.stat"
		writes
		expect_eq "$way: another one is not, bytes on the account" 0 $(($(charged wbytes) - before))
	}
	detach "$LOOP"
done

dying() {
	sed -n 's/^nr_dying_descendants //p' "$CGROUP/cgroup.stat"
}
few_dying() {
	echo 3 >/proc/sys/vm/drop_caches
	[ "$(dying)" -lt $((SHORT / 20)) ]
}
echo "$DISK wbps=max" >"$CGROUP/io.max"
echo "+io +memory" >"$CGROUP/cgroup.subtree_control"
need_attach "$IMAGE" --direct-io=on
expect_ok "$SHORT cgroups come, write and go" "$SELFTESTS/cgroup_limits.py" "$CGROUP" $SHORT "$LOOP"
expect_ok "their remains are not kept" await few_dying
diag "$(dying) of them are still about to go"
detach "$LOOP"
