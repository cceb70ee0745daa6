#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Who pays (F80, F81): I/O is charged to the submitter's cgroup on the disk below, its priority reaches that disk, and a
# command on account of another cgroup is not tried in the task at hand.

. "$(dirname "$0")/lib.sh"

plan 8

DISK=$(stat --format=%Hr:%Lr "$SPARE")
TRACE=/sys/kernel/tracing

new_cgroup

# The image and the file below are made within: whose inode it is says whose write-back it is.
lower ext4
IMAGE=$LOWER/image
within "$CGROUP" truncate --size 64M "$IMAGE"
need_attach "$IMAGE" --direct-io=on
before=$(charged wbytes)
within "$CGROUP" dd if=/dev/zero of="$LOOP" bs=64k count=128 oflag=direct status=none
expect_num "direct writes" $(($(charged wbytes) - before)) -ge $((8 << 20))
before=$(charged rbytes)
within "$CGROUP" dd if="$LOOP" of="$TMP/out" bs=4k count=512 iflag=direct status=none
expect_num "direct reads" $(($(charged rbytes) - before)) -ge $((2 << 20))
detach "$LOOP"

need_attach "$IMAGE"
# What it reads of the device is not ours.
udevadm settle
uncache "$IMAGE"
before=$(charged rbytes)
within "$CGROUP" dd if="$LOOP" of="$TMP/out" bs=64k count=128 iflag=direct status=none
expect_num "reads through the page cache" $(($(charged rbytes) - before)) -ge $((8 << 20))
before=$(charged wbytes)
within "$CGROUP" dd if=/dev/zero of="$LOOP" bs=64k count=128 oflag=direct conv=fsync status=none
expect_num "writes through the page cache" $(($(charged wbytes) - before)) -ge $((8 << 20))
file=$(sed -n 's/^file //p' "$CGROUP/memory.stat")
expect_num "the page cache is its own, too" "$file" -ge $((4 << 20))
detach "$LOOP"

# Another cgroup's pages, written back by this task: XFS, which overwrites in no transaction, on the disk itself, where a try
# does not come back for the sake of a time stamp. Few at a time, as a full plug is not tried at all.
unmount "$LOWER"
[ "$DRIVER" = loop ] || {
	defer reload_default
	reload nowait=always
}
need_attach "$SPARE" --direct-io=on
mkfs xfs "$LOOP" >"$TMP/out"
mount_at "$LOOP" upper
within "$CGROUP" dd if=/dev/zero of="$TMP/upper/file" bs=1M count=4 conv=fsync status=none
before=$(charged wbytes)
for ((i = 0; i < 32; i++)); do
	within "$CGROUP" dd if=/dev/zero of="$TMP/upper/file" bs=64k seek=$i count=1 conv=notrunc status=none
	dd if=/dev/null of="$TMP/upper/file" conv=notrunc,fsync status=none
done
expect_num "pages of the cgroup written back by another task" $(($(charged wbytes) - before)) -ge $((2 << 20))
rust_only "which does not try for it" || expect_num "which does not try for it" "$(loop_attr "$LOOP" not_tried_cgroup)" -ge 32
unmount "$TMP/upper"
detach "$LOOP"

# Priority: class and level, as the disk below gets them.
mountpoint --quiet "$TRACE" || mount_at tracefs trace -t tracefs
mountpoint --quiet "$TRACE" || TRACE=$TMP/trace
quiet_trace() {
	echo 0 >"$TRACE/events/block/block_rq_issue/enable"
	echo >"$TRACE/trace"
}
[ -e "$TRACE/events/block" ] || {
	skip "the priority of the submitter" "this kernel has no tracing"
	exit
}
need_attach "$SPARE" --direct-io=on
dd if=/dev/zero of="$LOOP" bs=64k count=16 oflag=direct status=none
# It reads what was written to.
udevadm settle
echo >"$TRACE/trace"
echo 1 >"$TRACE/events/block/block_rq_issue/enable"
defer quiet_trace
ionice --class 1 --classdata 3 dd if="$LOOP" of="$TMP/out" bs=64k count=16 iflag=direct status=none
echo 0 >"$TRACE/events/block/block_rq_issue/enable"
# device, kind, bytes (command), sector + sectors, class,hint,level
sed -n "s/.*block_rq_issue: ${DISK/:/,} R.*+ [0-9]* \([a-z]*\),[0-9]*,\([0-9]*\) .*/\1 \2/p" "$TRACE/trace" >"$TMP/issued"
expect_eq "the priority of the submitter" "rt 3" "$(sort --unique "$TMP/issued")"
detach "$LOOP"
