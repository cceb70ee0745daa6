#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0
"""Many loop devices at once, for the benchmarks.

	devices.py attach FILE...      with direct I/O; prints their nodes
	devices.py detach DEVICE...
	devices.py cycle COUNT FILE    attaches COUNT devices to it, then detaches them; prints JSON: seconds,
	                               microseconds of each step

Losetup would do, but a process a device takes longer than what is measured.
"""
import fcntl
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ioctl  # the constants and structures of the selftests  # noqa: E402


def attach(path):
    """A device that is free, bound to the file; its node."""
    with open("/dev/loop-control", "rb") as control:
        node = f"/dev/loop{fcntl.ioctl(control, ioctl.LOOP_CTL_GET_FREE)}"
    file = os.open(path, os.O_RDWR)
    device = os.open(node, os.O_RDWR)
    info = ioctl.Info64()
    info.flags = ioctl.FLAGS["direct_io"]
    fcntl.ioctl(device, ioctl.LOOP_CONFIGURE, ioctl.CONFIG_HEAD.pack(file, 0) + info.pack() + ioctl.CONFIG_TAIL)
    os.close(device)
    os.close(file)
    return node


def detach(node):
    """The device is unbound when this returns."""
    device = os.open(node, os.O_RDWR)
    fcntl.ioctl(device, ioctl.LOOP_CLR_FD)
    os.close(device)


def cycle(count, path):
    begin = time.monotonic()
    steps, nodes = [], []

    def timed(step, argument):
        start = time.monotonic()
        result = step(argument)
        steps.append(round((time.monotonic() - start) * 1e6, 1))
        return result

    for _ in range(count):
        nodes.append(timed(attach, path))
    for node in nodes:
        timed(detach, node)
    return {"seconds": time.monotonic() - begin, "steps_us": steps}


def main(verb, *words):
    if verb == "attach":
        print("\n".join([attach(path) for path in words]))
    elif verb == "detach":
        for node in words:
            detach(node)
    else:
        print(json.dumps(cycle(int(words[0]), words[1]), separators=(",", ":")))


main(*sys.argv[1:])
