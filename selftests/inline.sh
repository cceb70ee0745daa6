#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Which commands are done in their submitter's task, by the counters, under each policy; the data is verified each time.

. "$(dirname "$0")/lib.sh"

[ "$DRIVER" = rust_loop ] || skip_all "rust_loop's counters"

plan 37

IMAGE=$DATA/image
defer reload_default
truncate --size 16M "$IMAGE"

# count COUNTER...: their sum
count() {
	local name sum=0

	for name; do
		sum=$((sum + $(loop_attr "$LOOP" "$name")))
	done
	echo $sum
}

# cached_reads: fio over a buffered loop and a cached image; the inline share of its reads in $SHARE
cached_reads() {
	local inline punted

	fio_verify "$LOOP" --rw=write --bs=4k --size=8M --do_verify=0 || return
	cat "$IMAGE" >"$TMP/cached"
	inline=$(inline "$LOOP") punted=$(count punted)
	fio_verify "$LOOP" --rw=randread --bs=4k --size=8M || return
	inline=$(($(inline "$LOOP") - inline)) punted=$(($(count punted) - punted))
	SHARE=$((inline * 100 / (inline + punted)))
	INLINE=$inline
}

for policy in auto reads always never; do
	reload nowait=$policy || bail "cannot load with nowait=$policy"
	need_attach "$IMAGE"
	expect_ok "nowait=$policy: reads of cached data" cached_reads
	if [ $policy = never ]; then
		expect_eq "nowait=$policy: none inline" 0 "$INLINE"
		expect_num "nowait=$policy: refused by policy" "$(count not_tried_policy)" -ge 2048
	else
		expect_num "nowait=$policy: inline, per cent" "$SHARE" -gt 90
		expect_eq "nowait=$policy: no read is refused by policy" 0 "$(count not_tried_policy)"
	fi
	detach "$LOOP"
	need_attach "$IMAGE" --direct-io=on
	expect_ok "nowait=$policy: direct writes" fio_verify "$LOOP" --rw=randwrite --bs=4k --size=4M --do_verify=0
	case $policy in
	auto | always) expect_num "nowait=$policy: writes are tried" "$(count inline_done inline_queued inline_again)" -gt 0 ;;
	*) expect_eq "nowait=$policy: writes are not tried" 0 "$(count inline_done inline_queued inline_again)" ;;
	esac
	detach "$LOOP"
done

# What is never tried.
reload nowait=always
need_attach "$IMAGE"
dd if=/dev/zero of="$LOOP" bs=64k count=4 oflag=direct status=none
expect_eq "buffered writes are work items" 4 "$(count not_tried_op)"
blkdiscard --force --offset 1M --length 1M "$LOOP"
blkdiscard --force --zeroout --offset 2M --length 1M "$LOOP"
expect_num "so are discard and zeroes" "$(count not_tried_op)" -ge 6
sync "$LOOP"
expect_num "so is a flush" "$(count not_tried_op)" -ge 7
# Who else reads, has done so.
udevadm settle
refusals=$(cd "/sys/block/${LOOP#/dev/}/loop" && echo not_tried_*)
# Readahead, such as udev's while it probes, is done in a NOFS context.
# shellcheck disable=SC2086 # one word a counter
expect_eq "nothing else is refused" "$(count not_tried_op not_tried_nofs)" "$(count $refusals)"
# shellcheck disable=SC2086
expect_eq "work items: the refused, and those that came back" "$(count punted)" "$(count $refusals inline_again)"
expect_eq "each wait for a work item is counted, in 24 buckets" "24 $(count punted parked)" \
	"$(loop_attr "$LOOP" worker_wait | awk '{ for (i = 1; i <= NF; i++) sum += $i; print NF, sum }')"
detach "$LOOP"

# What is not cached is asked for inline all the same, at no loss.
need_attach "$IMAGE"
uncache "$IMAGE"
expect_ok "reads of data that is not cached" cmp --bytes=8M "$LOOP" "$IMAGE"
detach "$LOOP"

# The mode of one device, at run time.
set_mode() {
	echo "$1" >"/sys/block/${LOOP#/dev/}/loop/nowait"
}
direct_writes() {
	fio_verify "$LOOP" --rw=randwrite --bs=4k --size=4M --do_verify=0
}
reload nowait=never
need_attach "$IMAGE" --direct-io=on
other=$LOOP
truncate --size 16M "$DATA/second"
need_attach "$DATA/second" --direct-io=on
expect_ok "the mode of a device is changed" set_mode always
expect_eq "of this one only" "always never" "$(loop_attr "$LOOP" nowait) $(loop_attr "$other" nowait)"
expect_ok "writes" direct_writes
expect_num "are tried from then on" "$(count inline_done inline_queued inline_again)" -gt 0
expect_num "those that came back have made the policy reluctant" "$(count write_level)" -gt 0
expect_ok "a mode that is none is refused" failing set_mode sometimes
expect_eq "and changes nothing" always "$(loop_attr "$LOOP" nowait)"
expect_eq "root alone may change it" "644 root" "$(stat --format='%a %U' "/sys/block/${LOOP#/dev/}/loop/nowait")"
set_mode auto
expect_eq "a new mode begins anew" 0 "$(count write_level)"
detach "$LOOP"
detach "$other"
ioctl configure "$LOOP" file="$IMAGE" >"$TMP/out" || bail "cannot configure $LOOP"
expect_eq "a new file begins with the parameter" never "$(loop_attr "$LOOP" nowait)"
detach "$LOOP"
