#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What people do with it: a file system in an image, mounted, filled with a tree, checked and compared, over both modes; and
# many mount -o loop at once (F30).

. "$(dirname "$0")/lib.sh"

plan 13

IMAGE=$DATA/image
TREE=/usr/sbin

tree_sum() {
	(cd "$1" && find . -type f -print0 | sort --zero-terminated | xargs --null sha256sum) | sha256sum
}

fill() {
	mkfs "$1" "$LOOP" && mount_at "$LOOP" upper && cp --archive "$TREE" "$TMP/upper/tree" && unmount "$TMP/upper"
}

TREE_SUM=$(tree_sum "$TREE")
for kind in ext4 xfs btrfs; do
	rm -f "$IMAGE"
	truncate --size 512M "$IMAGE"
	need_attach "$IMAGE"
	expect_ok "$kind: made, mounted, filled" fill $kind
	detach "$LOOP"
	uncache "$IMAGE"
	need_attach "$IMAGE" --direct-io=on
	expect_ok "$kind: checked, over direct I/O" fsck $kind "$LOOP"
	mount_at "$LOOP" upper -o ro
	expect_eq "$kind: the same data" "$TREE_SUM" "$(tree_sum "$TMP/upper/tree")"
	unmount "$TMP/upper"
	detach "$LOOP"
done

# F30
many() {
	local i pids=() status=0

	for ((i = 0; i < 12; i++)); do
		mkdir -p "$TMP/many$i"
		mount -o loop "$DATA/many$i" "$TMP/many$i" &
		pids+=($!)
		defer unmount "$TMP/many$i"
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=1
	done
	return $status
}

each_its_own() {
	local i

	for ((i = 0; i < 12; i++)); do
		[ "$(cat "$TMP/many$i/number")" = $i ] || return
	done
}

no_device() {
	[ -z "$(losetup --list --noheadings)" ]
}

rm "$IMAGE"
for ((i = 0; i < 12; i++)); do
	truncate --size 2M "$DATA/many$i"
	mkdir "$DATA/root$i"
	echo $i >"$DATA/root$i/number"
	mkfs ext4 "$DATA/many$i" -d "$DATA/root$i"
done
expect_ok "12 mounts at once" many
expect_ok "each shows its own image" each_its_own
expect_eq "on 12 devices" 12 "$(losetup --list --noheadings | wc -l)"
release
expect_ok "all let go by umount" await no_device
