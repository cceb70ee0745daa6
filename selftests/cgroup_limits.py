#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""For cgroup_limits.sh: a cgroup after the other, each of which writes to DEVICE and goes.

	cgroup_limits.py PARENT COUNT DEVICE
"""
import mmap
import os
import sys
import time

SIZE = 64 << 10


def main(parent, count, device):
    direct = os.open(device, os.O_RDWR | os.O_DIRECT)
    cached = os.open(device, os.O_RDWR)
    memory = mmap.mmap(-1, SIZE)
    for number in range(int(count)):
        group = f"{parent}/short-{number}"
        os.mkdir(group)
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        at = number % 64 * SIZE
        os.pwrite(direct, memory, at)
        os.preadv(direct, [memory], at)
        os.pwrite(cached, memory, at)
        os.fsync(cached)
        with open("/sys/fs/cgroup/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        # Of a page that is still charged to it, say.
        for _ in range(100):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.01)
        else:
            return f"{group} cannot be removed"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
