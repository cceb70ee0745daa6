#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Submitters that ask not to wait (F10): on an idle device each gets its data, whatever a try said below; when the device is
# busy EAGAIN is the only other answer; and those that did not ask never see it.

. "$(dirname "$0")/lib.sh"

plan 8

IMAGE=$DATA/image

# nowait read|write DEVICE [DATA]: 256 random 4k blocks by RWF_NOWAIT; prints how many were done and each errno.
nowait() {
	python3 -IS - "$@" <<'EOF'
import collections, errno, mmap, os, random, sys
how, device, expected = sys.argv[1:]
fd = os.open(device, os.O_RDWR | os.O_DIRECT)
data = open(expected, "rb").read()
buffer = mmap.mmap(-1, 4096)
seen = collections.Counter()
for block in random.sample(range(len(data) // 4096), 256):
    part = data[block * 4096:(block + 1) * 4096]
    try:
        if how == "write":
            buffer[:] = part
            done = os.pwritev(fd, [buffer], block * 4096, os.RWF_NOWAIT)
        else:
            done = os.preadv(fd, [buffer], block * 4096, os.RWF_NOWAIT)
        seen["done" if done == 4096 and buffer[:] == part else "wrong"] += 1
    except OSError as error:
        seen[errno.errorcode[error.errno]] += 1
print(*(f"{name}={count}" for name, count in sorted(seen.items())))
EOF
}

for dio in off on; do
	head --bytes=8M /dev/urandom >"$DATA/expected"
	cp "$DATA/expected" "$IMAGE"
	need_attach "$IMAGE" --direct-io=$dio
	uncache "$IMAGE"
	expect_eq "idle, direct I/O $dio: reads" done=256 "$(nowait read "$LOOP" "$DATA/expected")"
	expect_eq "idle, direct I/O $dio: writes" done=256 "$(nowait write "$LOOP" "$DATA/expected")"
	detach "$LOOP"
	truncate --size 0 "$IMAGE"
	truncate --size 32M "$IMAGE"
	need_attach "$IMAGE" --direct-io=$dio
	dd if="$DATA/expected" of="$LOOP" bs=1M oflag=direct status=none
	fio_verify "$LOOP" --ioengine=libaio --iodepth=128 --rw=randwrite --bs=16k --offset=16M --size=16M >"$TMP/fio" 2>&1 &
	busy=$(nowait read "$LOOP" "$DATA/expected")
	wait $!
	expect_eq "busy, direct I/O $dio: those who wait see no error" 0 $?
	expect_eq "busy, direct I/O $dio: the others get data or EAGAIN" "" \
		"$(tr ' ' '\n' <<<"$busy" | grep --invert-match '^done=\|^EAGAIN=')"
	detach "$LOOP"
done
