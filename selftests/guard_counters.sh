#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each guard that a shell can run into is seen to refuse a try, by its own counter.

. "$(dirname "$0")/lib.sh"

[ "$DRIVER" = rust_loop ] || skip_all "rust_loop's counters"

plan 11

defer reload_default
reload nowait=always || bail "cannot load with nowait=always"

# Transactions: a mkdir in a file system that has just been mounted reads within one.
transactions() {
	local i

	for ((i = 0; i < 3; i++)); do
		mount_at "$LOOP" upper || return
		mkdir -p "$TMP/upper/$i"/{a,b,c,d,e,f,g,h}/{1,2,3} || return
		unmount "$TMP/upper" || return
	done
}

lower xfs
for kind in ext4:journal xfs:nofs; do
	image xfs 400M
	need_attach "$IMAGE"
	mkfs ${kind%:*} "$LOOP" >"$TMP/out"
	transactions
	expect_num "${kind#*:}: reads within a transaction of ${kind%:*}" "$(loop_attr "$LOOP" "not_tried_${kind#*:}")" -gt 0
	detach "$LOOP"
done

# A try or a work item of one loop device submits to the next one.
image xfs 16M
need_attach "$IMAGE" --direct-io=on
BASE=$LOOP
need_attach "$BASE" --direct-io=on
dd if="$LOOP" of="$TMP/out" bs=4k count=64 iflag=direct status=none
expect_num "noio: a try within a try" "$(loop_attr "$BASE" not_tried_noio)" -ge 64
expect_num "noio: only the outer one is made" "$(inline "$LOOP")" -ge 1
detach "$LOOP"
detach "$BASE"

# A frozen file system.
image xfs 16M
dd if=/dev/zero of="$IMAGE" bs=1M count=4 conv=notrunc,fsync status=none
need_attach "$IMAGE" --direct-io=on
defer fsfreeze --unfreeze "$LOWER"
fsfreeze --freeze "$LOWER"
dd if=/dev/zero of="$LOOP" bs=4k count=1 oflag=direct status=none &
frozen_seen() {
	[ "$(loop_attr "$LOOP" not_tried_frozen)" -gt 0 ]
}
expect_ok "frozen: a write to a frozen file system" await frozen_seen
expect_eq "frozen: it is seen to wait" 1 "$(loop_attr "$LOOP" blocking_writes)"
fsfreeze --unfreeze "$LOWER"
expect_ok "frozen: it is done after the thaw" wait $!
expect_eq "frozen: and to wait no more" 0 "$(loop_attr "$LOOP" blocking_writes)"

# A limit on the size of the submitter's files.
limited() {
	(ulimit -f 1024 && dd if=/dev/zero of="$LOOP" bs=64k count=32 seek=32 oflag=direct status=none)
}
expect_ok "rlimit: a write by a limited task beyond the limit" limited
expect_num "rlimit: is not tried" "$(loop_attr "$LOOP" not_tried_rlimit)" -gt 0

# Write-back is done by a worker.
mkfs ext4 "$LOOP"
mount_at "$LOOP" upper
dd if=/dev/zero of="$TMP/upper/file" bs=64k count=64 status=none
sync
expect_num "worker: write-back" "$(loop_attr "$LOOP" not_tried_worker)" -gt 0
unmount "$TMP/upper"
detach "$LOOP"
