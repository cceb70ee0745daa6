#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Every byte that the ioctls of a loop device write to user space, for leaks.sh.

	leaks.py DEVICE FILE NAME     DEVICE is bound to FILE, all at its defaults, by NAME
	leaks.py --read DEVICE FILE   what a READ across the end of FILE, which was cut short, leaves in the reader's memory

The buffer is filled before, and longer than the structure; the kernel's stack is filled by system calls that copy what they
are given there. Prints what is not as it should be, nothing if all is.
"""
import contextlib
import ctypes
import fcntl
import mmap
import os
import sys

import ioctl

USERS = 0xA5
KERNELS = 0x5A
BEYOND = 256

libc = ctypes.CDLL(None, use_errno=True)


def fill_stack():
    """poll() and select() copy their arguments to the stack, as far as they are short."""
    bits = ctypes.create_string_buffer(bytes([KERNELS]) * 40)
    none = ctypes.create_string_buffer(16)
    for _ in range(3):
        libc.select(ctypes.c_int(320), bits, bits, bits, none)
        libc.poll(ctypes.create_string_buffer(bytes([KERNELS]) * 240), ctypes.c_ulong(30), ctypes.c_int(0))


def difference(name, expected, seen):
    for at, (here, there) in enumerate(zip(expected, seen)):
        if here != there:
            return [f"{name}: byte {at} is {there:#x}, not {here:#x}; from there: {seen[at:at + 16].hex()}"]
    return []


def copied(fd, request, size, expected, errno=None):
    """What the request writes, EXPECTED, and nothing behind it. If it fails, nothing at all."""
    wrong = []
    for _ in range(20):
        memory = bytearray([USERS]) * (size + BEYOND)
        fill_stack()
        seen = None
        try:
            fcntl.ioctl(fd, request, memory)
        except OSError as error:
            seen = error.errno
        if seen != errno:
            return [f"{request:#x}: errno {seen}, not {errno}"]
        wrong += difference(f"{request:#x}", expected + bytes([USERS]) * (size + BEYOND - len(expected)), memory)
        if wrong:
            break
    return wrong


def status(device, path, name):
    fd = os.open(device, os.O_RDONLY)
    stat = os.stat(path)
    number = int(device.removeprefix("/dev/loop"))
    info = ioctl.Info64()
    info.device, info.inode, info.number, info.file_name = stat.st_dev, stat.st_ino, number, name.encode()
    wrong = copied(fd, ioctl.LOOP_GET_STATUS64, ioctl.INFO64.size, info.pack())
    # The gaps behind the number and at the end are zeroes, too.
    old = ioctl.INFO.pack(number, stat.st_dev, stat.st_ino, 0, 0, 0, 0, 0, name.encode(), b"", 0, 0, b"")
    wrong += copied(fd, ioctl.LOOP_GET_STATUS, len(old), old)
    os.close(fd)
    free = ioctl.ioctl_word(os.open("/dev/loop-control", os.O_RDWR), ioctl.LOOP_CTL_GET_FREE, 0)
    fd = os.open(f"/dev/loop{free}", os.O_RDONLY)
    for request, size in ((ioctl.LOOP_GET_STATUS64, ioctl.INFO64.size), (ioctl.LOOP_GET_STATUS, ioctl.INFO.size)):
        wrong += copied(fd, request, size, b"", 6)
    os.close(fd)

    # Nothing but lines, and one but for the list of counts.
    folder = f"/sys/block/{os.path.basename(device)}/loop"
    for attribute in os.listdir(folder):
        with open(f"{folder}/{attribute}", "rb") as file:
            content = file.read()
        if content.count(b"\n") != 1 or not content.endswith(b"\n") or b"\0" in content:
            wrong.append(f"{attribute}: {content!r}")
    return wrong


def reads(device, path):
    """Each byte is the file's, a zero, or still the reader's."""
    with open(path, "rb") as file:
        data = file.read()
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    wrong = []
    memory = mmap.mmap(-1, 256 << 10)
    for start in range(0, 1 << 20, 256 << 10):
        memory[:] = bytes([USERS]) * len(memory)
        with contextlib.suppress(OSError):
            os.preadv(fd, [memory], start)
        for at in range(0, len(memory), 512):
            block = memory[at:at + 512]
            file_block = data[start + at:start + at + 512]
            padded = file_block + bytes(512 - len(file_block))
            allowed = (padded, bytes(512), bytes([USERS]) * 512, file_block + bytes([USERS]) * (512 - len(file_block)))
            if block not in allowed:
                wrong.append(f"{start + at}: {block[:32].hex()}")
    return wrong


if __name__ == "__main__":
    words = sys.argv[1:]
    print("\n".join(reads(*words[1:]) if words[0] == "--read" else status(*words)), end="")
