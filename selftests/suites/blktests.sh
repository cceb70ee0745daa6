# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154 # CHECKOUT, TYPE, DISKS, driver, limit: guest.sh
# blktests. Groups: loop, which make their own devices, and block and others, which are given
# one of 2 GB. A release of Debian's form, 7.3.4+deb13, is none that blktests can compare, so
# that uname says 7.3.4-deb13 to it. Some stop and start udev as a service.

# shellcheck disable=SC2034 # for tools/suite
suite_systemd=1

suite_built() {
	[[ -x $1/src/loblksize ]] || die "blktests in $1 is not built: run make there"
}

suite_disks() { :; }

# suite_tests CHECKOUT TYPE GROUP...
suite_tests() {
	local checkout=$1 group
	shift 2
	(($#)) || set -- loop block
	for group; do
		(cd "$checkout/tests" && find "$group" -name '[0-9][0-9][0-9]' | sort)
	done
}

suite_setup() {
	local release=${KVER//+/-}
	cat >/usr/local/bin/uname <<-EOF
		#!/bin/sh
		/usr/bin/uname "\$@" | sed 's/$KVER/$release/'
	EOF
	chmod +x /usr/local/bin/uname
	ln -s "$KVER" "/lib/modules/$release"
	ln -s "config-$KVER" "/boot/config-$release"
	mountpoint -q /sys/kernel/debug/tracing || mount -t tracefs tracefs /sys/kernel/debug/tracing
}

suite_begin() {
	truncate --size 2G "$WORK/device.img"
	DEVICE=$(attach "$WORK/device.img") && export DEVICE
}

suite_test() {
	cd "$CHECKOUT" || return
	# Seconds that the timed ones take.
	echo 'TIMEOUT=10' >/tmp/blktests.config
	[[ $1 == loop/* ]] || echo "TEST_DEVS=($DEVICE)" >>/tmp/blktests.config
	./check --config=/tmp/blktests.config --output=/tmp/blktests "$1" >/tmp/blktests.out
	local status=$?
	cat /tmp/blktests.out
	! grep -q '\[not run\]' /tmp/blktests.out || return 77
	if ((status)); then
		find /tmp/blktests -path "*$1*" \( -name '*.out.bad' -o -name '*.full' \) -exec tail -n 40 {} +
	fi
	return "$status"
}

suite_end() { losetup --detach "$DEVICE"; }
