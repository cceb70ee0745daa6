#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Module parameters: a bad one fails the load with one line that names it and leaves nothing behind; good ones show in sysfs
# and take effect.

. "$(dirname "$0")/lib.sh"

plan 42

PARAMETERS=/sys/module/$DRIVER/parameters
defer reload_default

await_unused
await modprobe --remove "$DRIVER" || bail "cannot unload $DRIVER"

nothing_left() {
	[ ! -e "/sys/module/$DRIVER" ] && [ ! -e /sys/block/loop0 ] && ! grep --quiet ' loop-control$' /proc/misc &&
		! grep --quiet ' loop$' /proc/devices
}

# bad PARAMETER
bad() {
	local name=${1%%=*} mark status lines

	if [ "$DRIVER" = loop ]; then
		skip "$1: fails, with one line that names it" "rust_loop only"
		skip "$1: leaves nothing behind" "rust_loop only"
		return
	fi
	mark="selftest $TEST $$ tries '$1'"
	echo "$mark" >/dev/kmsg
	modprobe "$DRIVER" "$1" 2>"$TMP/out"
	status=$?
	lines=$(dmesg --notime | sed "1,/$mark/d" | grep "$DRIVER")
	expect_eq "$1: fails, with one line that names it" "1 1 1" \
		"$status $(wc -l <<<"$lines") $(grep --count "$name" <<<"$lines")"
	expect_ok "$1: leaves nothing behind" nothing_left
	await modprobe --remove "$DRIVER"
}

for parameter in nr_hw_queues=-1 nr_hw_queues=129 nr_hw_queues=two hw_queue_depth=0 hw_queue_depth=-5 \
	hw_queue_depth=10241 max_loop=-1 max_loop=1048577 max_part=-1 max_part=256 nowait=sometimes nowait=; do
	bad $parameter
done
expect_ok "both drivers: too many partitions fail" failing modprobe "$DRIVER" max_part=256
expect_ok "both drivers: that leaves nothing behind" nothing_left

reload max_loop=3 max_part=15 hw_queue_depth=64
expect_eq "max_loop: shown" 3 "$(cat "$PARAMETERS/max_loop")"
expect_eq "max_loop: so many devices" "loop0 loop1 loop2" "$(cd /sys/block && echo loop*)"
expect_eq "max_part: shown" 15 "$(cat "$PARAMETERS/max_part")"
expect_eq "max_part: minors apart" "7:16" "$(cat /sys/block/loop1/dev)"
expect_eq "hw_queue_depth: shown" 64 "$(cat "$PARAMETERS/hw_queue_depth")"
expect_eq "hw_queue_depth: so many requests" 64 "$(queue_attr loop0 nr_requests)"
truncate --size 16M "$DATA/image"
sfdisk --quiet "$DATA/image" <<<$'label: gpt\nsize=4M\nsize=4M'
need_attach "$DATA/image"
expect_eq "max_part: partitions without being asked" "${LOOP#/dev/}p1 ${LOOP#/dev/}p2" \
	"$(cd "/sys/block/${LOOP#/dev/}" && echo loop*p*)"
detach "$LOOP"
mknod "$TMP/node" b 7 $((9 * 16))
expect_ok "max_loop given: no device beyond on demand" failing blockdev --getsize64 "$TMP/node"

reload max_part=5 max_loop=2
expect_eq "max_part: rounded up to what the minors allow" 7 "$(cat "$PARAMETERS/max_part")"

# A queue that no CPU uses is not shown.
for queues in 1 2; do
	rust_only "nr_hw_queues=$queues" || {
		reload nr_hw_queues=$queues
		expect_eq "nr_hw_queues=$queues" "$queues $((queues < $(nproc) ? queues : $(nproc)))" \
			"$(cat "$PARAMETERS/nr_hw_queues") $(find /sys/block/loop0/mq -mindepth 1 -maxdepth 1 | wc -l)"
	}
done
for policy in auto always reads never; do
	rust_only "nowait=$policy" || {
		reload nowait=$policy
		need_attach "$DATA/image"
		expect_eq "nowait=$policy" "$policy $policy" "$(cat "$PARAMETERS/nowait") $(loop_attr "$LOOP" nowait)"
		detach "$LOOP"
	}
done
rust_only "no parameter can be written" ||
	expect_eq "no parameter can be written" "" "$(find "$PARAMETERS" -type f -perm /222)"
