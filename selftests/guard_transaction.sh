#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A file system on a loop device on a file system of the same type (F2): ext4 in its transactions, growing under a metadata
# load, and XFS, with access times kept below. No state of the upper one reaches the lower one, and both come out clean.

. "$(dirname "$0")/lib.sh"

plan 10

# churn ROUNDS: directories, files, links, removal, on a file system that has nothing cached at first
churn() {
	local i j

	for ((i = 0; i < $1; i++)); do
		mount_at "$LOOP" upper || return
		for ((j = 0; j < 12; j++)); do
			mkdir -p "$TMP/upper/$i/$j/d" && cp "$0" "$TMP/upper/$i/$j/f" && ln "$TMP/upper/$i/$j/f" "$TMP/upper/$i/$j/d/l" ||
				return
		done
		sync --file-system "$TMP/upper"
		rm -r "$TMP/upper/$i" && mkdir "$TMP/upper/$i"
		unmount "$TMP/upper" || return
	done
}

grow() {
	local size

	mount_at "$LOOP" upper && mkdir -p "$TMP/upper/a/b" || return
	for size in 96M 128M 192M 256M; do
		find "$TMP/upper" | wc -l
		resize2fs "$LOOP" $size && cp --archive "$SELFTESTS" "$TMP/upper/a/$size" || return
		sync --file-system "$TMP/upper"
	done
	unmount "$TMP/upper"
}

for kind in ext4 xfs; do
	lower $kind -o strictatime
	for dio in off on; do
		on="$kind on $kind, direct I/O $dio"
		image $kind 400M
		need_attach "$IMAGE" --direct-io=$dio
		if [ $kind = ext4 ]; then
			mkfs.ext4 -q -F "$LOOP" 64M
		else
			mkfs xfs "$LOOP" >"$TMP/out"
		fi
		expect_ok "$on: metadata" churn 4
		[ $kind = xfs ] || expect_ok "$on: grows under metadata" grow
		detach "$LOOP"
		need_attach "$IMAGE"
		expect_ok "$on: clean" fsck $kind "$LOOP"
		detach "$LOOP"
	done
	release
done
