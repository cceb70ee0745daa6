#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What users without privilege may do (F72): every node in every mode, every ioctl, sysfs; without and with the group disk, in a
# user namespace where they are root, and as a root without capabilities. Then the same on the in-tree driver in this one's
# place: there must be no difference.

. "$(dirname "$0")/lib.sh"
# shellcheck source=../tools/guest-lib.sh
. /bed/tools/guest-lib.sh

plan 26

IMAGE=$DATA/image
OTHER=$DATA/other
NOBODY="--reuid=65534 --regid=65534"
personas="root root-without-capabilities nobody disk namespace disk-in-namespace"

# as PERSONA COMMAND...
# shellcheck disable=SC2086 # options
as() {
	local who=$1

	shift
	case $who in
	root) "$@" ;;
	root-without-capabilities) setpriv --bounding-set=-all --inh-caps=-all "$@" ;;
	nobody) setpriv $NOBODY --clear-groups "$@" ;;
	disk) setpriv $NOBODY --groups=disk "$@" ;;
	namespace) setpriv $NOBODY --clear-groups unshare --user --map-root-user "$@" ;;
	disk-in-namespace) setpriv $NOBODY --groups=disk unshare --user --map-root-user "$@" ;;
	esac
}

swap() {
	await modprobe --remove "$1" && load_driver "$2" "$3" && udevadm settle && [ -d "/sys/module/$2" ]
}

back() {
	[ -d "/sys/module/$DRIVER" ] || swap loop "$DRIVER" "${PARAMS:-}"
}

# attempts DIRECTORY: of all personas, each with a device that is bound, one that is bound for reading, some that are not, and a
# partition. All are kept open meanwhile, so that LOOP_CLR_FD lets none of them go.
attempts() {
	local who device

	mkdir "$1"
	for who in $personas; do
		losetup /dev/loop1 "$IMAGE" && losetup --read-only /dev/loop2 "$IMAGE" && losetup --partscan /dev/loop4 "$OTHER" || return
		udevadm settle
		(cd / && as "$who" "$SELFTESTS/privilege.py" "$DATA/free" control=/dev/loop-control bound=/dev/loop1 read-only=/dev/loop2 \
			unbound=/dev/loop3:rw unbound=/dev/loop5:r unbound=/dev/loop6:w partition=/dev/loop4p1) \
			>"$1/$who" 2>"$TMP/error" 7</dev/loop1 8</dev/loop2 9</dev/loop4 || {
			cat "$TMP/error"
			return 1
		}
		udevadm settle
		for device in /dev/loop[1-6]; do
			losetup --detach "$device" 2>"$TMP/error"
			await unbound "$device" || return
		done
		udevadm settle
	done
}

# lines PERSONA PATTERN: what came of these attempts, each once
lines() {
	grep --extended-regexp "$2" "$TMP/ours/$1" | sed 's/.*: //' | sort --unique | xargs
}

# Every one of these lets the device, or its partition, alone if it is not open for writing.
writing='LOOP_SET_(STATUS64|STATUS|CAPACITY|DIRECT_IO|BLOCK_SIZE): '

chmod 755 "$DATA"
truncate --size 1M "$IMAGE" "$OTHER" "$DATA/free"
sfdisk --quiet "$OTHER" <<<$'start=16,size=512\n'
chmod 666 "$DATA/free"
defer back
expect_ok "all attempts are made" attempts "$TMP/ours"

expect_eq "root: sets what is bound, however it is open" ok "$(lines root "^bound (r|w|rw) $writing")"
for who in nobody namespace; do
	expect_eq "$who: opens nothing" "open:EACCES" "$(lines $who '^[a-z-]+ (r|w|rw)(: | [A-Zl])')"
	expect_eq "$who: reads attributes" ok "$(lines $who '^bound r (offset|dio|backing_file)')"
done
for who in disk disk-in-namespace root-without-capabilities; do
	expect_eq "$who: sets nothing by an opening for reading" EPERM "$(lines $who "^(bound|unbound|read-only) r $writing")"
	expect_eq "$who: sets what it has open for writing" ok "$(lines $who "^bound (w|rw) $writing")"
	expect_eq "$who: adds and removes devices" ok "$(lines $who '^control rw LOOP_CTL_(ADD|REMOVE): ')"
	expect_eq "$who: adds no partition" EACCES "$(lines $who '^bound rw BLKPG')"
done
for who in nobody disk namespace disk-in-namespace; do
	expect_eq "$who: writes to no attribute" EACCES "$(lines $who ' w (offset|sizelimit|autoclear|partscan|dio|backing_file)' |
		sed 's/ \?ENOENT//')"
done
need_attach "$IMAGE"
rust_only "the mode of a device is root's to change" ||
	expect_ok "the mode of a device is root's to change" failing as disk tee "/sys/block/${LOOP#/dev/}/loop/nowait" <<<always
detach "$LOOP"

rust_only "the in-tree driver takes its place" ||
	expect_ok "the in-tree driver takes its place" swap "$DRIVER" loop ""
rust_only "in-tree: all attempts are made" || expect_ok "in-tree: all attempts are made" attempts "$TMP/theirs"
rust_only "which end the same" || expect_ok "which end the same" diff --recursive "$TMP/theirs" "$TMP/ours"
