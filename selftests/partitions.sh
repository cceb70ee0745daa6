#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Partitions: scanned when asked for and there at once (F40), their data in the right place, gone at detach however they
# came (F22), no ghosts of an earlier image, and a detach under a mounted one waits for the last close (F21).

. "$(dirname "$0")/lib.sh"

plan 19

IMAGE=$DATA/image
truncate --size 16M "$DATA/parts"

# parts DEVICE: number:start:size of each partition, in sectors
parts() {
	local part name=${1#/dev/}

	for part in /sys/block/"$name"/"$name"p*; do
		[ -e "$part" ] && echo -n "$(cat "$part/partition"):$(cat "$part/start"):$(cat "$part/size") "
	done
}

truncate --size 64M "$IMAGE"
sfdisk --quiet "$IMAGE" <<'EOF'
label: gpt
start=2048, size=32768
start=34816, size=65536
EOF
TABLE="1:2048:32768 2:34816:65536 "

need_attach "$IMAGE"
expect_eq "none without partscan" "" "$(parts "$LOOP")"
expect_eq "partscan attribute off" 0 "$(loop_attr "$LOOP" partscan)"
ioctl set-status64 "$LOOP" flags=partscan >/dev/null
expect_eq "switched on later: there when SET_STATUS64 returns" "$TABLE" "$(parts "$LOOP")"
detach "$LOOP"
expect_eq "gone when detached" "" "$(parts "$LOOP")"

ioctl configure "$LOOP" file="$IMAGE" flags=partscan >/dev/null
expect_eq "there when CONFIGURE returns" "$TABLE" "$(parts "$LOOP")"
expect_eq "partscan attribute on" 1 "$(loop_attr "$LOOP" partscan)"
# EBUSY while udev has one of them open.
udevadm settle
expect_eq "rescanning by BLKRRPART finds the same" "$TABLE" "$(blockdev --rereadpt "$LOOP" && parts "$LOOP")"

udevadm settle
head --bytes=64K /dev/urandom >"$DATA/pattern"
dd if="$DATA/pattern" of="${LOOP}p2" bs=64K seek=3 oflag=direct status=none
expect_ok "what is written to a partition lands there" \
	cmp --ignore-initial=0:$((34816 * 512 + 3 * 65536)) --bytes=65536 "$DATA/pattern" "$IMAGE"
expect_ok "and not beyond its end" failing dd if="$DATA/pattern" of="${LOOP}p1" bs=64K seek=256 oflag=direct
expect_ok "not even by a block" cmp --ignore-initial=$((34816 * 512)) --bytes=65536 "$IMAGE" /dev/zero

# F21
mkfs ext4 "${LOOP}p1"
mount_at "${LOOP}p1" part
losetup --detach "$LOOP"
expect_ok "detach under a mounted partition is deferred" bound "$LOOP"
expect_ok "and the partition goes on working" cp "$IMAGE" "$TMP/part/file" --sparse=always
unmount "$TMP/part"
expect_ok "the last close lets go" await unbound "$LOOP"
udevadm settle
expect_eq "no partition is left" "" "$(parts "$LOOP")"

# F22
need_attach "$IMAGE"
ioctl add-partition "$LOOP" number=7 start=4096 length=2048 >/dev/null
expect_eq "one added by hand, without partscan" "7:4096:2048 " "$(parts "$LOOP")"
detach "$LOOP"
expect_eq "is gone when detached" "" "$(parts "$LOOP")"

need_attach "$IMAGE" --partscan
detach "$LOOP"
truncate --size 0 "$IMAGE"
truncate --size 64M "$IMAGE"
need_attach "$IMAGE" --partscan
expect_eq "an image without a table: no ghosts of the last one's" "" "$(parts "$LOOP")"
detach "$LOOP"

# F21: who has it open when it is let go may be the last one to close it.
opened_meanwhile() {
	local i

	for ((i = 0; i < 10; i++)); do
		attach "$DATA/parts" --partscan || return
		blkid --probe "${LOOP}p1" &
		blkid --probe "$LOOP" &
		losetup --detach "$LOOP" || return
		wait
		await unbound "$LOOP" || return
		[ -z "$(parts "$LOOP")" ] || failing parts "$LOOP" || return
	done
}
sfdisk --quiet "$DATA/parts" <<<$'label: gpt\nsize=4M\nsize=4M'
expect_ok "opened while it is let go, ten times: no partition is left" opened_meanwhile
expect_eq "the kernel log has no failed scan" "" "$(kernel_log | grep 'partition scan\|remove partitions')"
