#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The image is on NFS, whose server, this machine's own, is stopped under I/O and started again (F11): what is under way waits,
# another device works meanwhile, and then all goes on, with nothing lost.

. "$(dirname "$0")/lib.sh"

modprobe --all --quiet nfsd nfsv4 || skip_all "the kernel has no NFS"

plan 13

NFSD=/proc/fs/nfsd

# Version 4 only, which needs no rpcbind. A server that is new lets clients claim what they had opened, which nfsdcld keeps, and
# nothing else for a while: 10 s at least.
start_server() {
	rpc.nfsd --no-nfs-version 3 --lease-time 10 --grace-time 10 2
}
stop_server() {
	rpc.nfsd 0
}
begin_server() {
	# No delegation of the image, of which the checksum would have to ask the client.
	echo 0 >/proc/sys/fs/leases-enable
	mount -t nfsd nfsd "$NFSD" &&
		mkdir --parents /var/lib/nfs/nfsdcld /run/rpc_pipefs &&
		mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs &&
		touch /var/lib/nfs/etab /var/lib/nfs/rmtab /etc/exports &&
		ip link set lo up &&
		nfsdcld --pipefsdir /run/rpc_pipefs --storagedir /var/lib/nfs/nfsdcld &&
		rpc.mountd --no-nfs-version 3 &&
		exportfs -o rw,no_root_squash,fsid=0,insecure "127.0.0.1:$LOWER" &&
		start_server
}
gone() {
	failing pgrep --exact "$1"
}
end_server() {
	local name

	echo 1 >/proc/sys/fs/leases-enable
	mountpoint --quiet "$NFSD" || return 0
	# What waits for it does not let go of the mount.
	start_server
	unmount "$TMP/nfs"
	stop_server
	exportfs -ua
	for name in rpc.mountd nfsdcld; do
		pkill --exact "$name"
		await gone "$name"
	done
	unmount /run/rpc_pipefs
	unmount "$NFSD"
}

# load: 16 MB in 512 writes, not all at once, and flushed, as buffered ones do not wait for the server otherwise
load() {
	fio_verify "$LOOP" --ioengine=libaio --iodepth=16 --rw=randwrite --bs=32k --size=16M --rate_iops=100 --fsync=16
}

# commands: of the device, that have ended
commands() {
	awk '{ print $1 + $5 }' "/sys/block/${LOOP#/dev/}/stat"
}
begun() {
	[ "$(commands)" -gt "$before" ]
}
# stands: the load is not done, and no command of it in two seconds
stands() {
	local now

	now=$(commands)
	sleep 2
	[ "$now" = "$(commands)" ] && kill -0 "$loader"
}

lower ext4
truncate --size 16M "$LOWER/other"
defer end_server
begin_server || bail "the server does not start"
mount_at 127.0.0.1:/ nfs -t nfs4 -o hard || bail "no mount of one's own server"
need_attach "$LOWER/other"
OTHER=$LOOP
for dio in off on; do
	on="direct I/O $dio"
	truncate --size 16M "$TMP/nfs/image"
	need_attach "$TMP/nfs/image" --direct-io=$dio
	udevadm settle
	before=$(commands)
	load >"$TMP/load" 2>&1 &
	loader=$!
	await begun
	stop_server
	expect_ok "$on: the server is stopped, commands wait" await stands
	expect_ok "$on: another device works" dd if=/dev/zero of="$OTHER" bs=64k count=16 oflag=direct status=none
	expect_ok "$on: the first one still waits" stands
	start_server
	expect_ok "$on: started, they go on, and what was written is right" wait "$loader"
	rust_only "$on: no command is tried" || expect_eq "$on: no command is tried" "0 0 0" \
		"$(loop_attr "$LOOP" inline_done) $(loop_attr "$LOOP" inline_queued) $(loop_attr "$LOOP" inline_again)"
	written=$(checksum "$LOOP")
	detach "$LOOP"
	expect_eq "$on: all is on the server" "$written" "$(checksum "$LOWER/image")"
	rm "$TMP/nfs/image"
done
detach "$OTHER"
expect_ok "the server goes" end_server
