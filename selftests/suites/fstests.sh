# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154 # CHECKOUT, TYPE, DISKS, driver, limit: guest.sh
# fstests (xfstests). Groups: own-loops, the tests that make loop devices, which are run on
# disks; any other group of fstests, and single tests, are run on two loop devices.

suite_built() {
	[[ -x $1/ltp/fsstress && -f $1/tests/generic/group.list ]] ||
		die "fstests in $1 is not built: run make there"
}

# What tools/guest is to give: two disks to test, or one for the files of two loop devices.
suite_disks() {
	if [[ " $* " == *' own-loops '* ]]; then
		echo 6G 6G
	else
		echo 16G
	fi
}

# suite_tests CHECKOUT TYPE GROUP|TEST...
suite_tests() {
	local checkout=$1 type=$2 name directory
	shift 2
	(($#)) || set -- quick
	for name; do
		for directory in generic "$type"; do
			case $name in
			own-loops)
				(cd "$checkout/tests" && grep -lE '_create_loop_device|_require_loop\b|losetup|mount.* -o *loop' \
					"$directory"/[0-9][0-9][0-9])
				;;
			*/*) [[ $name != "$directory"/* ]] || echo "$name" ;;
			*)
				awk -v directory="$directory" -v group="$name" \
					'{ for (i = 2; i <= NF; i++) if ($i == group) print directory "/" $1 }' \
					"$checkout/tests/$directory/group.list"
				;;
			esac
		done
	done | sort --unique
}

suite_setup() {
	useradd --create-home fsgqa
	useradd --create-home fsgqa2
	useradd 123456-fsgqa
	mkdir -p /mnt/test /mnt/scratch /tmp/results
	if ((${#DISKS[@]} == 1)); then
		mkdir -p /mnt/files
		mkfs -t "$FS" "${DISKS[0]}" >/dev/null 2>&1 && mount "${DISKS[0]}" /mnt/files
	fi
}

suite_begin() {
	export TEST_DIR=/mnt/test SCRATCH_MNT=/mnt/scratch FSTYP=$TYPE RESULT_BASE=/tmp/results
	export LOGWRITES_DEV='' MKFS_OPTIONS='' MOUNT_OPTIONS='' TEST_FS_MOUNT_OPTS=''
	if ((${#DISKS[@]} == 1)); then
		rm -f /mnt/files/test /mnt/files/scratch
		truncate --size 6G /mnt/files/test /mnt/files/scratch
		TEST_DEV=$(attach /mnt/files/test) && SCRATCH_DEV=$(attach /mnt/files/scratch) || return
	else
		TEST_DEV=${DISKS[0]} SCRATCH_DEV=${DISKS[1]}
	fi
	export TEST_DEV SCRATCH_DEV
	wipefs --all --quiet "$TEST_DEV" "$SCRATCH_DEV"
	mkfs -t "$TYPE" "$TEST_DEV" >/dev/null 2>&1 && mount "$TEST_DEV" "$TEST_DIR"
}

# outcome LINES: what check wrote of one test.
outcome() {
	case $1 in
	*'[not run]'*) echo skip ;;
	*'[failed'* | *mismatch* | *'_check_'* | *'[dumped core]'* | *'(see '*) echo fail ;;
	*) echo pass ;;
	esac
}

# One check for all, which takes its time to begin. It runs them in the order of their names,
# and writes a test's line when that has ended: what names another one ends the one before.
suite_run() {
	local left=("$@") line='' record='' check ended
	local test='^[a-z0-9]+/[0-9]{3}[[:space:]]' took='([0-9]+)s[[:space:]]*$'
	cd "$CHECKOUT" || return
	conclude() {
		local name=${record%%[[:space:]]*} status seconds=0
		status=$(outcome "$record")
		[[ ! ${record%%$'\n'*} =~ $took ]] || seconds=${BASH_REMATCH[1]}
		if [[ $status == fail ]]; then
			tail -n 60 "$RESULT_BASE/$name".{out.bad,full,dmesg} 2>/dev/null
		fi
		echo "## result $driver $name $status $seconds"
		left=("${left[@]:1}") record=''
		((${#left[@]} == 0)) || echo "## begin $driver ${left[0]}"
	}
	echo "## begin $driver ${left[0]}"
	exec {check}< <(./check "$@" 2>&1)
	while :; do
		read -r -t "$limit" -u "$check" line || {
			ended=$?
			break
		}
		if [[ -n $record && ($line =~ $test || $line == Ran:*) ]]; then
			conclude
		fi
		printf '%s\n' "$line"
		if [[ -n $record || $line =~ $test ]]; then
			record+=$line$'\n'
		fi
	done
	# Over 128: nothing came for so long, after the end of the one before.
	if ((ended > 128)); then
		[[ -z $record ]] || conclude
		echo "## result $driver ${left[0]} hung $limit"
		return 1
	fi
	((${#left[@]} == 0))
}

suite_end() {
	umount "$SCRATCH_MNT" "$TEST_DIR" 2>/dev/null
	losetup --detach-all
}
