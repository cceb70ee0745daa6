#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The memory to describe commands of several bios fails to be had, in tries and in work items (F6): no command fails for it,
# and none is done twice. For a kernel with CONFIG_FAILSLAB.

. "$(dirname "$0")/lib.sh"

INJECT=/sys/kernel/debug/failslab
# A batch of 32 adjoining blocks is described by 512 bytes, half of it by 256.
CACHES="/sys/kernel/slab/kmalloc-256 /sys/kernel/slab/kmalloc-512"
ls $INJECT/cache-filter /sys/kernel/slab/kmalloc-512/failslab >/dev/null 2>&1 ||
	skip_all "this kernel injects no failures of allocations"

plan 8

# inject PER_CENT: of the allocations from these caches by fio and by workers
inject() {
	local cache worker

	for cache in $CACHES; do
		echo 1 >"$cache/failslab"
	done
	for worker in $(pgrep '^kworker'); do
		echo 1 >"/proc/$worker/make-it-fail"
	done 2>/dev/null
	echo Y >$INJECT/cache-filter
	echo Y >$INJECT/task-filter
	echo N >$INJECT/ignore-gfp-wait
	echo 0 >$INJECT/verbose
	echo 1 >$INJECT/interval
	echo -1 >$INJECT/times
	echo "$1" >$INJECT/probability
}
stop() {
	local cache

	echo 0 >$INJECT/probability
	for cache in $CACHES; do
		echo 0 >"$cache/failslab"
	done
}
defer stop

# Adjoining blocks of a batch are merged to commands of several bios. fio's job fails from its first command on: what
# starts it needs memory, too. fio redirects the output of this itself.
# shellcheck disable=SC2016 # expanded by fio's shell
batches() {
	fio_verify "$LOOP" --ioengine=libaio --iodepth=32 --iodepth_batch=32 --iodepth_batch_complete_min=32 --bs=4k --rw=write \
		--size=8M --exec_prerun='echo 1 | tee /proc/$PPID/make-it-fail'
}

IMAGE=$DATA/image
dd if=/dev/zero of="$IMAGE" bs=1M count=16 conv=fsync status=none
for dio in on off; do
	need_attach "$IMAGE" --direct-io=$dio
	inject 50
	expect_ok "direct I/O $dio: written and verified" batches
	stop
	for counter in not_tried_reclaim in_parts; do
		rust_only "direct I/O $dio: some were not to be had, $counter" ||
			expect_num "direct I/O $dio: some were not to be had, $counter" "$(loop_attr "$LOOP" $counter)" -gt 0
	done
	sync "$LOOP"
	expect_eq "direct I/O $dio: the file holds the same" "$(checksum "$LOOP" 8M)" "$(checksum "$IMAGE" 8M)"
	detach "$LOOP"
done
