#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes records that are flushed one by one, or checks what is left of them.

records.py load DIR NAME [COMMAND...]
                                writes records 0, 1, 2, ... for ever; when number N is flushed, runs COMMAND
                                with the argument NAME:N added to it, and prints "## acked NAME N"
records.py check DIR NAME LAST  checks that all up to number LAST (-1 for none) are there; prints what is not

A record is 4096 bytes: its number, then bytes that follow from name and number, then their digest.
Record N goes, by turns, into a slot of a file that is overwritten in place (fsync), to the end of a
file (O_DSYNC), and into a file of its own under a new name (fsync of file and folder).

When the power goes, one record is on its way, and a few more may be flushed of which the line did
not get out: up to WINDOW numbers after LAST may have taken the place of older ones.
"""

import hashlib
import os
import subprocess
import sys

SIZE = 4096
KINDS = 3
# Of each kind, so many are kept.
SLOTS = 128
LOG = 500
KEPT = 200
WINDOW = 90


def record(name, number):
    seed = hashlib.sha256(f"{name} {number}".encode()).digest()
    body = number.to_bytes(8, "little") + seed * ((SIZE - 8 - 32) // len(seed) + 1)
    body = body[: SIZE - 32]
    return body + hashlib.sha256(body).digest()


def number_in(data):
    """The number of the record, None if it is no whole one."""
    if len(data) != SIZE or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        return None
    return int.from_bytes(data[:8], "little")


def paths(folder):
    return (os.path.join(folder, name) for name in ("slots", "log", "files"))


def place(number):
    """Kind of the record, and which of its kind it is."""
    return number % KINDS, number // KINDS


def load(folder, name, *command):
    slots_path, log_path, files = paths(folder)
    os.makedirs(files, exist_ok=True)
    slots = os.open(slots_path, os.O_RDWR | os.O_CREAT, 0o644)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o644)
    parent = os.open(folder, os.O_RDONLY)
    directory = os.open(files, os.O_RDONLY)
    os.fsync(slots)
    os.fsync(parent)
    number = 0
    while True:
        kind, index = place(number)
        data = record(name, number)
        if kind == 0:
            os.pwrite(slots, data, index % SLOTS * SIZE)
            os.fsync(slots)
        elif kind == 1:
            # The log begins again now and then: shrinking and growing in turn.
            if index % LOG == 0:
                os.ftruncate(log, 0)
            os.pwrite(log, data, index % LOG * SIZE)
        else:
            temporary = os.path.join(files, "new")
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(fd, data)
            os.fsync(fd)
            os.close(fd)
            os.rename(temporary, os.path.join(files, str(number)))
            if index >= KEPT:
                try:
                    os.unlink(os.path.join(files, str(number - KEPT * KINDS)))
                except FileNotFoundError:
                    pass
            os.fsync(directory)
        if command:
            subprocess.run([*command, f"{name}:{number}"], check=True)
        # One write, so that lines of several writers do not mix.
        os.write(1, f"## acked {name} {number}\n".encode())
        number += 1


def stored(folder, number):
    slots_path, log_path, files = paths(folder)
    kind, index = place(number)
    try:
        if kind == 2:
            with open(os.path.join(files, str(number)), "rb") as file:
                return file.read()
        with open(slots_path if kind == 0 else log_path, "rb") as file:
            return os.pread(file.fileno(), SIZE, index % (SLOTS if kind == 0 else LOG) * SIZE)
    except OSError as error:
        return str(error).encode()


def kept(last):
    """Numbers up to `last` that no other one up to `last` has taken the place of."""
    for number in range(last + 1):
        kind, index = place(number)
        newest = (last - kind) // KINDS
        if (
            (kind == 0 and index > newest - SLOTS)
            or (kind == 1 and index // LOG == newest // LOG)
            or (kind == 2 and index > newest - KEPT)
        ):
            yield number


def check(folder, name, last):
    after = range(last + 1, last + 1 + WINDOW)
    log_begins_again = any(place(n)[0] == 1 and place(n)[1] % LOG == 0 for n in after)
    checked = 0
    wrong = []
    torn = []
    for number in kept(last):
        checked += 1
        kind, index = place(number)
        found = number_in(stored(folder, number))
        if found == number:
            continue
        if kind == 0 and number + SLOTS * KINDS in after:
            if found == number + SLOTS * KINDS:
                continue
            if found is None:
                torn.append(number)
                continue
        if kind == 1 and log_begins_again and found in (None, number + LOG * KINDS):
            continue
        if kind == 2 and number + KEPT * KINDS in after and found is None:
            continue
        wrong.append(number)
    # Only one was on its way.
    wrong += torn[1:]
    for number in wrong[:10]:
        print(f"# {name}: record {number} of {last} is not there, but {number_in(stored(folder, number))}")
    print(f"## checked {name} {checked} {len(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "load":
        load(*sys.argv[2:])
    else:
        sys.exit(check(sys.argv[2], sys.argv[3], int(sys.argv[4])))
