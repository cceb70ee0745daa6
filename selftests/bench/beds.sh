# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # sizes, $lower: guest.sh
# The disks that all subjects lie on, in the guest's memory or of the host. Sourced by guest.sh.

# null_disk NAME MEGABYTES NANOSECONDS: /dev/NAME, which completes each command that late, by a
# timer and in interrupt context; with 0 at once, in the submitter's. The data is copied before.
null_disk() {
	local dir=/sys/kernel/config/nullb/$1 mode=2 setting
	modprobe null_blk nr_devices=0 && mkdir "$dir" || return
	(($3)) || mode=0
	# null_blk allocates memory with the page lock held, so it makes its queue a blocking one.
	for setting in size="$2" memory_backed=1 irqmode=$mode completion_nsec="$3" blocksize=512 \
		submit_queues="$(nproc)" hw_queue_depth=1024 discard=1 power=1; do
		echo "${setting#*=}" >"$dir/${setting%%=*}" || return
	done
}

# map NAME: a device-mapper device of the table that is read; prints its node. Without udev there is
# no link in /dev/mapper, and nobody who answers if waited for.
map() {
	dmsetup create --noudevsync "$1" &&
		echo "/dev/$(dmsetup info --columns --noheadings --options blkdevname "$1")"
}

# make_bed BED: the disk, in $disk. All of its memory is taken now, and nothing is discarded later
# but by a workload: what a run writes would else cost more where none has written before.
make_bed() {
	local bed=$1 nanoseconds=0
	case $bed in
	host)
		disk=/dev/vdc
		return
		;;
	0us | uml | delay) ;;
	100us) nanoseconds=100000 ;;
	2ms) nanoseconds=2000000 ;;
	*) false ;;
	esac && null_disk bench "$disk_mb" "$nanoseconds" &&
		dd if=/dev/zero of=/dev/bench bs=16M count=$((disk_mb / 16)) oflag=direct status=none || return
	disk=/dev/bench
	# What null_blk does not do: a disk that refuses REQ_NOWAIT, and completes in a task.
	if [[ $bed == delay ]]; then
		modprobe dm_delay && disk=$(map bench-delay <<<"0 $((disk_mb << 11)) delay /dev/bench 0 2")
	fi
}

# other_file: a file on a disk of its own, in $other: work that has nothing to do with loop.
other_file() {
	local mount=/run/bench-other
	other=$mount/file
	[[ ! -e $other ]] || return 0
	null_disk other 512 100000 && mkfs.xfs -q -f -K /dev/other && mkdir -p "$mount" &&
		mount /dev/other "$mount" && dd if=/dev/zero of="$other" bs=1M count=64 oflag=direct status=none
}

# make_backing FS BACKING: an empty file system at $lower with the image, in $image, for all
# subjects. Nothing to do if that is what there is.
made=''
make_backing() {
	local fs=$1 backing=$2
	[[ $made != "$fs $backing" ]] || return 0
	made=''
	if mountpoint -q "$lower"; then
		umount "$lower" || return
	fi
	wipefs --all --quiet "$disk" || return
	if [[ $fs == bdev ]]; then
		image=$disk
	else
		modprobe --quiet "$fs"
		case $fs in
		# All of it now, nothing in the background later.
		ext4) mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$disk" ;;
		xfs) mkfs.xfs -q -f -K "$disk" ;;
		esac && mount "$disk" "$lower" || return
		image=$lower/image
	fi
	case $backing in
	full | half) fallocate --length 512M "$image" && written 0 512 ;;
	part) written 0 256 ;;
	empty) truncate --size 1M "$image" ;;
	esac || return
	made="$fs $backing"
}

# written FROM TO: the image's megabytes that are written.
written() {
	dd if=/dev/zero of="$image" bs=1M seek="$1" count=$(($2 - $1)) oflag=direct conv=notrunc status=none
}

# renew_backing BACKING MODE: what has to be anew for each run.
renew_backing() {
	local i
	case $1 in
	sparse) rm -f "$image" && truncate --size "$sparse_size" "$image" ;;
	part) truncate --size 256M "$image" && truncate --size "$sparse_size" "$image" ;;
	half) fallocate --offset 256M --length 256M "$image" ;;
	many)
		rm -f "$lower"/many*
		for ((i = 0; i < many; i++)); do
			printf '%s\0' "$lower/many$i"
		done | xargs --null truncate --size 64M
		;;
	esac || return
	sync --file-system "$lower"
	case $2 in
	cached) cat "$image" >/dev/null ;;
	cold) dd if="$image" iflag=nocache count=0 status=none ;;
	esac
}
