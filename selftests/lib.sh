# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the guest selftests share. A selftest is sourced with nothing set up but the guest's contract (tools/guest):
# $DRIVER is loaded, $WORK is an empty directory on the scratch file system, $SPARE a block device of 1 GB nobody uses.
# It says what it has in TAP: plan N, then N points by ok, not_ok, skip or the expect_* functions. One more point is made
# here at the end: everything set up was let go again, and the kernel logged no warning meanwhile.
#
# Whatever a selftest sets up it lets go by defer, which also runs when it fails half-way, the last deferred first.

set -u

DRIVER=${DRIVER:-rust_loop}
SELFTESTS=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
TEST=$(basename "$0" .sh)
TMP=$(mktemp -d "/tmp/$TEST.XXXXXX")
DATA=$WORK/$TEST
mkdir -p "$DATA"

DEFERRED=()

# shellcheck source=tap.sh
. "$SELFTESTS/tap.sh"

# plan N: what the selftest has; one more is made at the end.
plan() {
	tap_plan $(($1 + 1))
}

# in_tree_fault NAME || expect...: skips the point under the in-tree driver, which is known to fail it.
in_tree_fault() {
	[ "$DRIVER" = loop ] && skip "$1" "in-tree fault"
}

# rust_only NAME || expect...: skips the point under the in-tree driver, which has nothing to ask there.
rust_only() {
	[ "$DRIVER" = loop ] && skip "$1" "rust_loop only"
}

# too_large NAME BYTES || expect...: skips the point if that is a block that this kernel never has.
too_large() {
	[ "$2" -gt 4096 ] && [ ! -d /sys/kernel/mm/transparent_hugepage ] &&
		skip "$1" "this kernel has no blocks larger than a page"
}

### Letting go

# defer COMMAND...: to be run at the end. It must do no harm if what it lets go is gone already.
defer() {
	local quoted

	printf -v quoted '%q ' "$@"
	DEFERRED=("$quoted" "${DEFERRED[@]+"${DEFERRED[@]}"}")
}

# release: runs what is deferred by now.
release() {
	local command

	for command in "${DEFERRED[@]+"${DEFERRED[@]}"}"; do
		eval "$command" >>"$TMP/release" 2>&1
	done
	DEFERRED=()
}

# kernel_log: since this selftest started
kernel_log() {
	dmesg | sed "1,/$LOG_MARK/d"
}

log_warnings() {
	kernel_log >"$TMP/kernel.log"
	/bed/tools/kernel-warnings "$TMP/kernel.log"
}

# What must be at the end as it was at the start: mounts, bound loop devices, device-mapper devices.
state() {
	losetup --list --noheadings --output NAME,BACK-FILE | sort
	cut -d ' ' -f 2 /proc/mounts | sort
	dmsetup ls 2>/dev/null | grep -v '^No devices found' | sort
}

finish() {
	local seen warnings

	trap - EXIT
	release
	udevadm settle --timeout=60
	rm -rf "$DATA"
	if [ "$TAP_PLAN" -gt 0 ]; then
		seen=$(state)
		warnings=$(log_warnings)
		if [ "$seen" != "$STATE" ]; then
			not_ok "lets go of everything" "$(diff <(echo "$STATE") <(echo "$seen"))" "$(cat "$TMP/release")"
		elif [ -n "$warnings" ]; then
			not_ok "no kernel warning" "$warnings"
		else
			ok "lets go of everything, no kernel warning"
		fi
	fi
	rm -rf "$TMP"
	# Without a number exit keeps the status from before the trap.
	tap_end
	exit $?
}

STATE=$(state)
LOG_MARK="selftest $TEST $$ starts"
echo "$LOG_MARK" >/dev/kmsg
trap finish EXIT
trap 'exit 1' INT TERM

### Loop devices

ioctl() {
	"$SELFTESTS/ioctl.py" "$@"
}

# attach FILE [LOSETUP_OPTION]...: binds a free device to FILE; its node in $LOOP.
attach() {
	local file=$1

	shift
	LOOP=$(losetup --find --show "$@" "$file" 2>"$TMP/losetup") && defer detach "$LOOP"
}

# need_attach FILE [LOSETUP_OPTION]...: where the selftest makes no sense without.
need_attach() {
	attach "$@" || bail "cannot attach $*: $(<"$TMP/losetup")"
}

bound() {
	[ -e "/sys/block/${1##*/}/loop/backing_file" ]
}

# await COMMAND...: until it is true; false if it does not become so, in time enough for the slowest machine.
await() {
	local i

	for ((i = 0; i < 600; i++)); do
		"$@" 2>"$TMP/await" && return
		sleep 0.1
	done
	echo "still not: $*: $(<"$TMP/await")" >&2
	return 1
}

unbound() {
	! bound "$1"
}

# detach DEVICE: lets go of it, and waits until that is done: udev may still have it open, and the last close does it.
detach() {
	bound "$1" || return 0
	losetup --detach "$1" && await unbound "$1"
}

# hold DEVICE HOW: keeps it open (as open= of ioctl.py says) until let_go.
hold() {
	coproc HOLDER { ioctl hold "$1" open="$2"; }
	read -r <&"${HOLDER[0]}"
	[ "$REPLY" = held ]
}

let_go() {
	eval "exec ${HOLDER[1]}>&-"
	wait "$HOLDER_PID"
}

# await_unused: until no one, udev for one, has a loop device open or bound.
await_unused() {
	await grep --quiet --line-regexp 0 "/sys/module/$DRIVER/refcnt"
}

# loop_attr DEVICE NAME, queue_attr DEVICE NAME: attributes in sysfs.
loop_attr() {
	echo "$(<"/sys/block/${1##*/}/loop/$2")"
}

queue_attr() {
	echo "$(<"/sys/block/${1##*/}/queue/$2")"
}

# inline DEVICE: commands that were done without a work item.
inline() {
	echo $(($(loop_attr "$1" inline_done) + $(loop_attr "$1" inline_queued)))
}

# inline_share DEVICE: in per cent of all commands; 0 if there was none.
inline_share() {
	local inline punted

	inline=$(inline "$1")
	punted=$(loop_attr "$1" punted)
	echo $((inline * 100 / (inline + punted + (inline + punted == 0))))
}

# reload [PARAMETER]...: the driver anew, with these parameters in place of $PARAMS. Nothing may be bound.
reload() {
	await modprobe --remove "$DRIVER" && modprobe "$DRIVER" "$@" && udevadm settle
}

# shellcheck disable=SC2086 # parameters are words
reload_default() {
	reload ${PARAMS:-}
}

### What lies below and above

# mount_at SOURCE NAME [MOUNT_OPTION]...: mounts on $TMP/NAME.
mount_at() {
	local source=$1 dir=$TMP/$2

	shift 2
	mkdir -p "$dir"
	mount "$@" "$source" "$dir" && defer unmount "$dir"
}

# unmount DIRECTORY, if it is a mount point
unmount() {
	! mountpoint --quiet "$1" || umount "$1"
}

# failing COMMAND...: true if it fails
failing() {
	! "$@"
}

# mkfs KIND DEVICE [MKFS_OPTION]...
mkfs() {
	local kind=$1 device=$2

	shift 2
	case $kind in
	ext4) mkfs.ext4 -q -F -m 0 "$@" "$device" ;;
	xfs) mkfs.xfs -q -f "$@" "$device" ;;
	btrfs) mkfs.btrfs -q -f "$@" "$device" ;;
	f2fs) mkfs.f2fs -q -f "$@" "$device" ;;
	vfat) mkfs.vfat "$@" "$device" ;;
	*) return 1 ;;
	esac
}

# fsck KIND DEVICE: checks, repairs nothing.
fsck() {
	case $1 in
	ext4) e2fsck -f -n "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	btrfs) btrfs check "$2" ;;
	*) return 1 ;;
	esac
}

# lower KIND [MOUNT_OPTION]...: a lower file system of this kind on $SPARE (or in memory) mounted at $LOWER; "bdev" only
# empties $SPARE. Until the next release.
lower() {
	local kind=$1

	shift
	LOWER=$TMP/lower
	case $kind in
	bdev) wipefs --all --quiet "$SPARE" && blkdiscard --zeroout --length 128M "$SPARE" ;;
	tmpfs | ramfs) mount_at none lower -t "$kind" "$@" ;;
	*) mkfs "$kind" "$SPARE" >"$TMP/mkfs" && mount_at "$SPARE" lower "$@" ;;
	esac || bail "no $kind to test on"
}

# image KIND SIZE: what to attach, in $IMAGE: a sparse file in $LOWER, or $SPARE itself.
image() {
	if [ "$1" = bdev ]; then
		IMAGE=$SPARE
	else
		IMAGE=$LOWER/image
		rm -f "$IMAGE"
		truncate --size "$2" "$IMAGE"
	fi
}

# fio_verify DEVICE OPTION...: one job on a whole device or file, every block's crc32c checked.
fio_verify() {
	local device=$1

	shift
	fio --name=verify --filename="$device" --allow_file_create=0 --direct=1 --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --verify_state_save=0 --randrepeat=1 "$@"
}

# uncache FILE: writes back and drops what is cached of a file or device.
uncache() {
	sync "$1" && dd if="$1" iflag=nocache count=0 status=none
}

# checksum FILE [SIZE]: of what is stored, not of what happens to be cached.
checksum() {
	uncache "$1"
	head --bytes="${2:-100G}" "$1" | sha256sum | cut -d ' ' -f 1
}

### Cgroups

# new_cgroup: $CGROUP, with the controllers io and memory, until the end. What is in it by then goes as well.
new_cgroup() {
	CGROUP=/sys/fs/cgroup/selftest-$$
	[ -e /sys/fs/cgroup/cgroup.subtree_control ] || mount -t cgroup2 none /sys/fs/cgroup
	echo "+io +memory" >/sys/fs/cgroup/cgroup.subtree_control || bail "no cgroups"
	mkdir "$CGROUP" || bail "no cgroup"
	defer remove_cgroup
}

remove_cgroup() {
	local group

	for group in "$CGROUP"/*/ "$CGROUP"; do
		[ ! -d "$group" ] || await rmdir "$group"
	done
}

# within CGROUP COMMAND...: as a member of it
within() {
	(echo "$BASHPID" >"$1/cgroup.procs" && shift && "$@")
}

# charged FIELD: of io.stat, of $SPARE on the account of $CGROUP
charged() {
	sed -n "s/^$(stat --format=%Hr:%Lr "$SPARE") .*$1=\([0-9]*\).*/\1/p" "$CGROUP/io.stat" | grep . || echo 0
}

### Little memory

# available: MB of it that can be had
available() {
	awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo
}

# take_memory MB: all but these, until the end. What is in a ramfs is nobody's to use, write back or swap out.
take_memory() {
	mount_at none taken -t ramfs || bail "no ramfs"
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zero of="$TMP/taken/memory" bs=1M count=$(($(available) - $1)) status=none
	[ "$(available)" -lt $(($1 * 2)) ] || bail "memory cannot be taken away: $(available) MB are left"
}

# swap_on: to $LOOP, until the end or swap_off
swap_on() {
	mkswap "$LOOP" >/dev/null || bail "no swap on $LOOP"
	defer swap_off
	swapon "$LOOP" || bail "no swap on $LOOP"
}

swap_off() {
	! grep --quiet "^$LOOP " /proc/swaps || swapoff "$LOOP"
}

# swapped: pages that have been written so, since boot
swapped() {
	awk '/^pswpout/ { print $2 }' /proc/vmstat
}

### Kernel uevents of block devices

event_marker() {
	echo "change 00000000-0000-4000-8000-$(printf %012d "$1")" >"/sys/class/block/${SPARE##*/}/uevent"
	grep --quiet "SYNTH_UUID=00000000-0000-4000-8000-$(printf %012d "$1")" "$TMP/uevents"
}

# uevents COMMAND...: runs it, keeping the events from its start to its end for event_list.
uevents() {
	local monitor status

	udevadm settle
	udevadm monitor --kernel --property --subsystem-match=block >"$TMP/uevents" &
	monitor=$!
	await event_marker 1
	"$@"
	status=$?
	udevadm settle
	await event_marker 2
	kill $monitor
	wait $monitor 2>/dev/null
	return $status
}

# event_list DEVICE: one line an event of the device and its partitions, but for those that udev itself asks for, and for
# the media change that the block layer says a while later.
event_list() {
	awk -v RS= -v device="${1##*/}" '
		/SYNTH_UUID|DISK_MEDIA_CHANGE/ || $0 !~ ("DEVNAME=[^\n]*" device "(p[0-9]+)?\n") { next }
		{
			line = ""
			n = split($0, words, "\n")
			for (i = 1; i <= n; i++) {
				if (sub("^ACTION=", "", words[i]))
					action = words[i]
				else if (sub("^DEVTYPE=", "", words[i]))
					type = words[i]
				else if (words[i] ~ /^(RESIZE|DISK_RO|PARTN)=/)
					line = line " " words[i]
			}
			print action " " type line
		}' "$TMP/uevents"
}
