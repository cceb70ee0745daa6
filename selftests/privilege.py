#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""What the one who runs this may do to loop devices: every node, opened in every way, every ioctl, sysfs; for privilege.sh.

	privilege.py FILE LABEL=NODE[:MODE]...

One line for each attempt: LABEL HOW WHAT: RESULT, the result being "ok" or an errno ("open:" and the errno if it did not get
that far). FILE can be read and written by all. The order is such that what succeeds is in nobody's way, LOOP_CLR_FD the last.
"""
import errno
import fcntl
import os
import struct
import sys
import time

import ioctl

MODES = {"rw": os.O_RDWR, "r": os.O_RDONLY, "w": os.O_WRONLY}
BLKROSET = 0x125D
BLKRRPART = 0x125F
BLKFLSBUF = 0x1261
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
BLKGETSIZE64 = 0x80081272
FIRST = struct.pack("QQ", 0, 4096)


def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def give_status64(fd):
    # As if it had been told so; not by asking, which is an attempt of its own.
    fcntl.ioctl(fd, ioctl.LOOP_SET_STATUS64, ioctl.Info64().pack())


def give_status(fd):
    fcntl.ioctl(fd, ioctl.LOOP_SET_STATUS, bytes(ioctl.INFO.size))


def word(request, value):
    return lambda fd: ioctl.ioctl_word(fd, request, value)


def buffer(request, data):
    return lambda fd: fcntl.ioctl(fd, request, bytearray(data))


def on_device(path):
    """What to attempt on a device, in order."""
    return {
        "LOOP_GET_STATUS64": ioctl.get_info64,
        "LOOP_GET_STATUS": buffer(ioctl.LOOP_GET_STATUS, bytes(ioctl.INFO.size)),
        "LOOP_SET_STATUS64": give_status64,
        "LOOP_SET_STATUS": give_status,
        "LOOP_SET_STATUS64 null": word(ioctl.LOOP_SET_STATUS64, 0),
        "LOOP_SET_CAPACITY": word(ioctl.LOOP_SET_CAPACITY, 0),
        "LOOP_SET_DIRECT_IO": word(ioctl.LOOP_SET_DIRECT_IO, 0),
        "LOOP_SET_BLOCK_SIZE": word(ioctl.LOOP_SET_BLOCK_SIZE, 512),
        "LOOP_CHANGE_FD": lambda fd: ioctl.REQUESTS["change-fd"](fd, {"file": path}),
        "LOOP_CHANGE_FD of a file for reading": lambda fd: ioctl.REQUESTS["change-fd"](fd, {"file": path, "mode": "ro"}),
        "LOOP_CONFIGURE": lambda fd: ioctl.configure(fd, {"file": path}),
        "LOOP_SET_FD": lambda fd: ioctl.REQUESTS["set-fd"](fd, {"file": path}),
        "an unknown one": word(0x4C0B, 0),
        "read": lambda fd: os.pread(fd, 512, 0),
        "write": lambda fd: os.pwrite(fd, bytes(512), 0),
        "fsync": os.fsync,
        "BLKGETSIZE64": buffer(BLKGETSIZE64, bytes(8)),
        "BLKFLSBUF": word(BLKFLSBUF, 0),
        "BLKRRPART": word(BLKRRPART, 0),
        "BLKPG": lambda fd: ioctl.add_partition(fd, {"number": "5", "start": "8", "length": "8"}),
        "BLKROSET": buffer(BLKROSET, bytes(4)),
        "BLKDISCARD": buffer(BLKDISCARD, FIRST),
        "BLKZEROOUT": buffer(BLKZEROOUT, FIRST),
        "LOOP_CLR_FD": word(ioctl.LOOP_CLR_FD, 0),
    }


def remove(fd):
    """udev may have it open, for a moment."""
    for _ in range(600):
        try:
            return ioctl.ioctl_word(fd, ioctl.LOOP_CTL_REMOVE, 29)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        time.sleep(0.1)
    raise OSError(errno.EBUSY, "LOOP_CTL_REMOVE")


ON_CONTROL = {
    "LOOP_CTL_GET_FREE": word(ioctl.LOOP_CTL_GET_FREE, 0),
    "LOOP_CTL_ADD": word(ioctl.LOOP_CTL_ADD, 29),
    "LOOP_CTL_REMOVE": remove,
    "LOOP_CTL_REMOVE -1": word(ioctl.LOOP_CTL_REMOVE, -1),
    "an unknown one": word(0x4C8F, 0),
}


def on_node(label, path, hows, attempts):
    for how in hows:
        try:
            fd = os.open(path, MODES[how])
        except OSError as error:
            print(f"{label} {how}: open:{errno.errorcode[error.errno]}")
            continue
        for what, function in attempts.items():
            print(f"{label} {how} {what}: {attempt(function, fd)}")
        os.close(fd)


def touch(path, mode):
    def function():
        fd = os.open(path, mode)
        try:
            if mode == os.O_RDONLY:
                os.read(fd, 4096)
            else:
                os.write(fd, b"1")
        finally:
            os.close(fd)
    return function


def main(path, *nodes):
    for node in nodes:
        label, device = node.split("=")
        device, _, mode = device.partition(":")
        hows = (mode,) if mode else MODES
        if label == "control":
            on_node(label, device, hows, ON_CONTROL)
            continue
        name = os.path.basename(device)
        for attribute in ("offset", "sizelimit", "autoclear", "partscan", "dio", "backing_file"):
            for how in ("r", "w"):
                result = attempt(touch(f"/sys/block/{name}/loop/{attribute}", MODES[how]))
                print(f"{label} {how} {attribute}: {result}")
        on_node(label, device, hows, on_device(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
