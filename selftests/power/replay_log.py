#!/usr/bin/python3 -I
# SPDX-License-Identifier: GPL-2.0
"""Replays what dm-log-writes has logged, up to a moment when the power may have gone.

	replay_log.py points LOG COUNT SEED NAME...     draws such moments
	replay_log.py replay LOG TARGET FROM TO         writes entries FROM up to TO, without it, to TARGET

A point is a line "TO LAST...": a number of entries, and for each NAME the number N of the last mark "NAME:N" among them, -1
if there is none. Points come after the mark "begin". One of them is at the last mark of all, the others are drawn from SEED.

The log has a write once it has ended and a FLUSH that was sent later has ended, too: whatever no FLUSH covers is lost.
The layout is that of drivers/md/dm-log-writes.c: a sector for the log, then for each entry a sector and its data.
"""
import collections
import fcntl
import os
import random
import struct
import sys

MAGIC = 0x6A736677736872
VERSION = 1
DISCARD, MARK = 1 << 2, 1 << 3
BLKZEROOUT = 0x127F

Entry = collections.namedtuple("Entry", "sector sectors flags mark data")


class Log:
    """What is on the device of the log."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        magic, version, self.count, self.sector_size = struct.unpack("<QQQI", os.pread(self.file, 28, 0))
        if (magic, version) != (MAGIC, VERSION):
            sys.exit(f"{path} is no log of dm-log-writes")

    def entries(self):
        """All of them. DATA is where in the log an entry's data is."""
        at = self.sector_size
        for _ in range(self.count):
            head = os.pread(self.file, self.sector_size, at)
            sector, sectors, flags, length = struct.unpack_from("<QQQQ", head)
            mark = head[32:32 + length].decode() if flags & MARK else None
            at += self.sector_size
            yield Entry(sector, sectors, flags, mark, at)
            if not flags & DISCARD:
                at += sectors * self.sector_size

    def replay(self, target, entry):
        at, length = entry.sector * self.sector_size, entry.sectors * self.sector_size
        if entry.flags & DISCARD:
            fcntl.ioctl(target, BLKZEROOUT, struct.pack("QQ", at, length))
        elif length:
            data = os.pread(self.file, length, entry.data)
            if len(data) != length or os.pwrite(target, data, at) != length:
                sys.exit("a short read of the log, or a short write")


def points(log, count, seed, *names):
    last = dict.fromkeys(names, -1)
    begun = False
    drawable = {}
    for number, entry in enumerate(log.entries(), 1):
        if entry.mark == "begin":
            begun = True
        elif entry.mark and ":" in entry.mark:
            name, record = entry.mark.split(":")
            last[name] = int(record)
            last_mark = number
        if begun:
            drawable[number] = tuple(last.values())
    chosen = {last_mark, *random.Random(seed).sample(sorted(drawable), int(count) - 1)}
    for number in sorted(chosen):
        print(number, *drawable[number])


def replay(log, target, first, end):
    target = os.open(target, os.O_WRONLY | os.O_EXCL)
    for number, entry in enumerate(log.entries()):
        if int(first) <= number < int(end):
            log.replay(target, entry)
    os.fsync(target)


if __name__ == "__main__":
    {"points": points, "replay": replay}[sys.argv[1]](Log(sys.argv[2]), *sys.argv[3:])
