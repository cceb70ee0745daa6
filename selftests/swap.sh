#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Swap on a loop device while memory runs out (F12). Its writes are what makes memory free, so that none may wait for some that
# only they can free: not in the task that reclaims, in its work item, or in a worker of the file system below.

. "$(dirname "$0")/lib.sh"

plan 3

take_memory 320

# Allocated, but not written: the file system has to mark its extents after each write, for which it needs memory.
IMAGE=$DATA/image
fallocate --length 1G "$IMAGE"
chmod 600 "$IMAGE"
need_attach "$IMAGE" --direct-io=on
swap_on
before=$(swapped)
expect_ok "more memory used than there is" \
	stress-ng --vm 1 --vm-bytes $(($(available) + 256))M --vm-method incdec --vm-ops 4 --verify --oomable --timeout 300
expect_num "pages went there" $(($(swapped) - before)) -gt 1000
# By the guard, or as there was no memory to describe the command with: the counter is the same.
rust_only "refused for reclaim" || expect_num "refused for reclaim" "$(loop_attr "$LOOP" not_tried_reclaim)" -gt 0
swap_off
detach "$LOOP"
