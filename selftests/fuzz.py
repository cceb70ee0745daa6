#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Random ioctls, sysfs writes and I/O on a few loop devices by several processes, with faults below them, for selftests/fuzz.sh.

	fuzz.py SECONDS SEED MODULE DIRECTORY FAULTY DISK

DIRECTORY lies on a file system of its own, which is frozen now and then. FAULTY is a device-mapper device that is linear on
the block device DISK; it is made to fail. WORKERS draw what they do from SEED, their number and how often they were killed
before; how they meet is chance. Each keeps a log, of which the end is printed if anything is wrong.

In each round all of them are halted once, and what can be seen from outside has to agree: LOOP_GET_STATUS64, sysfs, losetup,
the file that is bound, and the module's reference count. An ioctl with an errno that is not its own, or that takes LIMIT
seconds, is wrong as well. Nothing writes to the first HEAD bytes of the files "guarded*" through a device: all devices that
they are bound to begin behind these.

The last line is "## fuzz {JSON}": how often each operation ended how. Status 1 if anything was wrong.
"""
import collections
import contextlib
import errno
import fcntl
import json
import mmap
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import time

import ioctl

WORKERS = 4
DEVICES = range(10, 14)
LIMIT = 120
ROUND = 4
HEAD = 64 << 10
SIZE = 4 << 20
CONTROL = "/dev/loop-control"
MODES = ("auto", "always", "reads", "never")

BLKRRPART = 0x125F
BLKFLSBUF = 0x1261
BLKSSZGET = 0x1268
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
BLKGETSIZE64 = 0x80081272

# What each operation may end with besides success; "bytes" are reads, writes and what works like them.
BYTES = "EIO ENOSPC EINVAL EPERM EBADF ENOTSUP ENXIO EBUSY"
ERRORS = {
    "open": "ENXIO EBUSY ENODEV ENOENT EACCES EROFS",
    "close": "",
    "configure": "EBADF EINVAL EBUSY EOVERFLOW",
    "set_fd": "EBADF EINVAL EBUSY",
    "change_fd": "EBADF EINVAL ENXIO",
    "clr_fd": "ENXIO",
    "set_status64": "ENXIO EINVAL EOVERFLOW",
    "set_status": "ENXIO EINVAL EOVERFLOW",
    "get_status64": "ENXIO",
    "get_status": "ENXIO EOVERFLOW",
    "set_capacity": "ENXIO",
    "set_direct_io": "ENXIO EINVAL",
    "set_block_size": "ENXIO EINVAL EBUSY",
    "garbage": "ENXIO EINVAL EFAULT EBADF EBUSY EOVERFLOW ENOTTY",
    "add": "EEXIST EINVAL",
    "remove": "ENODEV EBUSY EINVAL",
    "get_free": "",
    "control_garbage": "ENOSYS EINVAL",
    "partition": "EBUSY EINVAL ENXIO EIO",
    "write_sysfs": "ENOENT ENODEV EACCES EINVAL EBUSY",
    "read_sysfs": "ENOENT ENODEV",
    "probe": "ENXIO ENODEV ENOENT EIO",
    "read": BYTES,
    "write": BYTES,
    "fsync": BYTES,
    "discard": BYTES,
}
OFTEN = {"open": 10, "close": 8, "configure": 10, "change_fd": 4, "clr_fd": 4, "read": 6, "write": 6}


def name_of(error):
    return errno.errorcode.get(error.errno, str(error.errno))


def node(number):
    return f"/dev/loop{number}"


def sysfs(number, name):
    return pathlib.Path(f"/sys/block/loop{number}") / name


def is_bound(number):
    return sysfs(number, "loop/backing_file").exists()


class Wrong(Exception):
    """What must not be."""


class Board:
    """What all processes see: whether to halt, whether to end, and since when each worker is in an operation."""

    def __init__(self):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)

    def halted(self):
        return self.memory[0] != 0

    def halt(self, on):
        self.memory[0] = int(on)

    def since(self, worker):
        return struct.unpack_from("d", self.memory, 64 + 8 * worker)[0]

    def begin(self, worker, moment):
        struct.pack_into("d", self.memory, 64 + 8 * worker, moment)


class Worker:
    """One process: its openings, and its dice."""

    def __init__(self, board, number, life, seed, module, directory, faulty, log):
        self.board = board
        self.number = number
        self.rng = random.Random(f"{seed}/{number}/{life}")
        self.module = module
        self.directory = directory
        self.faulty = faulty
        self.log = log
        self.openings = []
        self.control = os.open(CONTROL, os.O_RDWR)
        self.buffer = mmap.mmap(-1, 256 << 10)
        self.buffer.write(self.rng.randbytes(256 << 10))
        self.operations = list(ERRORS)
        self.weights = [OFTEN.get(name, 2) for name in self.operations]

    def run(self, lock):
        while True:
            while self.board.halted():
                time.sleep(0.005)
            fcntl.flock(lock, fcntl.LOCK_SH)
            # Both see the other: the flag is set before the lock is waited for.
            if not self.board.halted():
                self.board.begin(self.number, time.monotonic())
                self.step(self.rng.choices(self.operations, self.weights)[0])
                self.board.begin(self.number, 0)
            fcntl.flock(lock, fcntl.LOCK_UN)

    def step(self, name):
        self.words = [name]
        try:
            result = getattr(self, name)()
        except OSError as error:
            result = name_of(error)
            if result not in ERRORS[name].split():
                result = f"WRONG {result}"
        if result != "none":
            os.write(self.log, f"{' '.join(map(str, self.words))} = {result}\n".encode())

    def choose(self, *options):
        """Draws one, and has it in the log."""
        choice = self.rng.choice(options)
        self.words.append(choice)
        return choice

    # What operations act on

    @contextlib.contextmanager
    def opening(self):
        """One of the openings, or None."""
        if self.openings and self.rng.random() < 0.95:
            fd, number = self.rng.choice(self.openings)
            self.words.append(f"loop{number}")
            yield fd
        else:
            yield None

    def some_file(self, guarded=True):
        """The descriptor of what a device may, or may not, be bound to; whether it is guarded; what to close."""
        plain = ["plain", "partitioned", "growing", "faulty", f"loop{self.rng.choice(DEVICES)}"]
        bad = ["directory", "null", "sysfs", "pipe", "socket", "closed", "-1"]
        what = self.choose(*(["guarded", "guarded-sparse"] * 4 if guarded else []), *plain * 2, *bad[:3], self.rng.choice(bad))
        mode = self.choose(os.O_RDWR, os.O_RDWR, os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_DIRECT)
        kept = []
        if what == "faulty":
            fd = os.open(self.faulty, mode)
        elif what.startswith("loop"):
            fd = os.open(f"/dev/{what}", mode | os.O_NONBLOCK)
        elif what == "directory":
            fd = os.open(self.directory, os.O_RDONLY)
        elif what == "null":
            fd = os.open("/dev/null", os.O_RDWR)
        elif what == "sysfs":
            fd = os.open("/sys/kernel/uevent_seqnum", os.O_RDONLY)
        elif what == "pipe":
            fd, other = os.pipe()
            kept = [other]
        elif what == "socket":
            fd = socket.socket(socket.AF_UNIX).detach()
        elif what in ("closed", "-1"):
            return (999 if what == "closed" else 0xFFFFFFFF), False, []
        else:
            fd = os.open(f"{self.directory}/{what}", mode)
        return fd, what.startswith("guarded"), [fd, *kept]

    @contextlib.contextmanager
    def file(self, guarded=True):
        try:
            fd, is_guarded, kept = self.some_file(guarded)
        except OSError as error:
            # A loop device that cannot be opened.
            self.words.append(name_of(error))
            fd, is_guarded, kept = 999, False, []
        try:
            yield fd, is_guarded
        finally:
            for each in kept:
                os.close(each)

    def offset(self, zero):
        far = (HEAD, HEAD, HEAD + 512 * self.rng.randrange(64), HEAD + 4096 * self.rng.randrange(64),
               HEAD + self.rng.randrange(9999), SIZE - 512, 2 * SIZE, 1 << 62, (1 << 63) - 512, 1 << 63, (1 << 64) - 1)
        return self.choose(*((0, 0, 0, 0) if zero else ()), *far)

    def info(self, zero, flags):
        info = ioctl.Info64()
        info.offset = self.offset(zero)
        info.sizelimit = self.choose(0, 0, 0, 0, 512, 4096, 65536, 1 << 20, self.rng.randrange(1 << 20), 1 << 62, 1 << 63)
        info.flags = self.choose(0, 0, 0, *flags)
        info.encrypt_type = self.choose(*[0] * 30, 1, 18, 7)
        info.encrypt_key_size = self.choose(*[0] * 30, 32, 33)
        info.file_name = self.choose(b"", b"fuzz", b"x" * 64)
        return info

    # Operations

    def open(self):
        if len(self.openings) == 3:
            return self.close()
        number = self.choose(*DEVICES)
        mode = self.choose(os.O_RDWR, os.O_RDWR, os.O_RDWR, os.O_RDONLY, os.O_WRONLY)
        mode |= self.choose(*[0] * 8, os.O_EXCL, os.O_DIRECT, os.O_DIRECT)
        self.openings.append((os.open(node(number), mode), number))
        return "ok"

    def close(self):
        if not self.openings:
            return "none"
        fd, number = self.openings.pop(self.rng.randrange(len(self.openings)))
        self.words = ["close", f"loop{number}"]
        os.close(fd)
        return "ok"

    def configure(self):
        with self.opening() as fd, self.file() as (backing, guarded):
            if fd is None:
                return "none"
            info = self.info(not guarded, (1, 1, 1, 4, 4, 8, 12, 16, 16, 16, 24, 28, 2, 32))
            # In-tree, one that it refuses leaves the file in use for ever.
            bad_sizes = () if self.module == "loop" else (1, 513, 131072)
            size = self.choose(0, 0, 0, 0, 512, 1024, 4096, 4096, *bad_sizes)
            head = ioctl.CONFIG_HEAD.pack(backing & 0xFFFFFFFF, size)
            fcntl.ioctl(fd, ioctl.LOOP_CONFIGURE, head + info.pack() + ioctl.CONFIG_TAIL)
            return "ok"

    def set_fd(self):
        with self.opening() as fd, self.file(guarded=False) as (backing, _):
            return "none" if fd is None else self.result(ioctl.ioctl_word(fd, ioctl.LOOP_SET_FD, backing))

    def change_fd(self):
        with self.opening() as fd, self.file() as (backing, _):
            return "none" if fd is None else self.result(ioctl.ioctl_word(fd, ioctl.LOOP_CHANGE_FD, backing))

    def result(self, value):
        return "ok" if value == 0 else f"WRONG value {value}"

    def simple(self, request, *values):
        with self.opening() as fd:
            return "none" if fd is None else self.result(ioctl.ioctl_word(fd, request, self.choose(*values)))

    def clr_fd(self):
        return self.simple(ioctl.LOOP_CLR_FD, 0)

    def set_capacity(self):
        return self.simple(ioctl.LOOP_SET_CAPACITY, 0)

    def set_direct_io(self):
        return self.simple(ioctl.LOOP_SET_DIRECT_IO, 0, 1, 1, -1)

    def set_block_size(self):
        # In-tree a bad one is found when it has been taken half.
        return self.simple(ioctl.LOOP_SET_BLOCK_SIZE, 512, 1024, 4096, 4096, 0, 1, 1000, 131072, -1)

    def set_status64(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            fcntl.ioctl(fd, ioctl.LOOP_SET_STATUS64, self.info(False, (0, 0, 8, 4, 12, 29, 0xFFFFFFFF)).pack())
            return "ok"

    def set_status(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            offset = self.choose(HEAD, HEAD + 512, HEAD + 4096, HEAD + 7, -1)
            fcntl.ioctl(fd, ioctl.LOOP_SET_STATUS,
                        ioctl.INFO.pack(0, 0, 0, 0, offset, 0, 0, self.choose(0, 0, 4, 8), b"old", b"", 0, 0, b""))
            return "ok"

    def get_status64(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            ioctl.get_info64(fd)
            return "ok"

    def get_status(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            fcntl.ioctl(fd, ioctl.LOOP_GET_STATUS, bytearray(ioctl.INFO.size))
            return "ok"

    def garbage(self):
        """Any request of the range, and what it makes of an address or a number that is none. Zeroes would be a good status."""
        known = (ioctl.LOOP_SET_FD, ioctl.LOOP_SET_STATUS, ioctl.LOOP_GET_STATUS, ioctl.LOOP_SET_STATUS64,
                 ioctl.LOOP_GET_STATUS64, ioctl.LOOP_CHANGE_FD, ioctl.LOOP_CONFIGURE)
        with self.opening() as fd:
            if fd is None:
                return "none"
            request = self.choose(*known, 0x4C00 + self.rng.randrange(11, 256), self.rng.getrandbits(16) | 0x40000000)
            # None may be an open descriptor: LOOP_SET_FD takes one, and standard output may be a file.
            value = self.choose(0x7FFFFFFF, -1, -4096, 0x7FFF, 0x1000, 0x7FFFFFFFF000)
            ioctl.ioctl_word(fd, request, value)
            return "WRONG success"

    def on_control(self, request, *values):
        value = ioctl.ioctl_word(self.control, request, self.choose(*values))
        return "ok" if value >= 0 else f"WRONG value {value}"

    def add(self):
        return self.on_control(ioctl.LOOP_CTL_ADD, *[*DEVICES] * 4, 1 << 20, 0x7FFFFFFF)

    def remove(self):
        return self.on_control(ioctl.LOOP_CTL_REMOVE, *[*DEVICES] * 4, -1, -7, 0x7FFFFFFF)

    def get_free(self):
        return self.on_control(ioctl.LOOP_CTL_GET_FREE, 0, -1)

    def control_garbage(self):
        return self.on_control(self.choose(0x4C83, 0x4C7F, 0x4C00, 0x4C0A, 0, 0x5401), 0, 10, -1) and "WRONG success"

    def partition(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            if self.choose("rescan", "add") == "rescan":
                fcntl.ioctl(fd, BLKRRPART, 0)
            else:
                ioctl.add_partition(fd, {"number": str(self.choose(1, 2, 5)), "start": "8", "length": str(self.choose(8, 64))})
            return "ok"

    def write_sysfs(self):
        """What must not be written to is not, and what is no value is not taken."""
        name, value, is_good = self.choose(
            ("loop/nowait", self.rng.choice(MODES), self.module != "loop"), ("loop/nowait", "sometimes", False),
            ("loop/offset", "0", False), ("loop/autoclear", "1", False), ("loop/backing_file", "/etc/passwd", False),
            ("queue/scheduler", self.rng.choice(("none", "mq-deadline")), True), ("queue/scheduler", "sometimes", False),
            ("queue/nr_requests", self.rng.choice(("4", "128")), True), ("queue/read_ahead_kb", "0", True),
            ("queue/wbt_lat_usec", "2000", True), ("uevent", "change", True))
        file = os.open(sysfs(self.choose(*DEVICES), name), os.O_WRONLY)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)
        return "ok" if is_good else "WRONG success"

    def read_sysfs(self):
        number = self.choose(*DEVICES)
        for name in os.listdir(sysfs(number, "loop")):
            sysfs(number, f"loop/{name}").read_text()
        return "ok"

    def probe(self):
        """As udev does: begin and end, and gone."""
        file = os.open(node(self.choose(*DEVICES)), os.O_RDONLY)
        try:
            size = struct.unpack("Q", fcntl.ioctl(file, BLKGETSIZE64, bytes(8)))[0]
            os.pread(file, 4096, 0)
            os.pread(file, 4096, max(0, size - 4096))
        finally:
            os.close(file)
        return "ok"

    def place(self):
        length = self.choose(512, 4096, 4096, 65536, 262144)
        return memoryview(self.buffer)[:length], 4096 * self.choose(self.rng.randrange(16), self.rng.randrange(1024))

    def read(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            memory, at = self.place()
            os.preadv(fd, [memory], at)
            return "ok"

    def write(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            memory, at = self.place()
            os.pwritev(fd, [memory], at)
            return "ok"

    def fsync(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            os.fsync(fd)
            return "ok"

    def discard(self):
        with self.opening() as fd:
            if fd is None:
                return "none"
            request = self.choose(BLKDISCARD, BLKZEROOUT, BLKFLSBUF)
            fcntl.ioctl(fd, request, struct.pack("QQ", 4096 * self.rng.randrange(256), 4096 * self.rng.randrange(1, 64)))
            return "ok"


class Faults:
    """What happens below the devices; all is well again after each."""

    def __init__(self, rng, directory, faulty, disk):
        self.rng = rng
        self.directory = pathlib.Path(directory)
        self.name = pathlib.Path(faulty).name
        size = int(subprocess.check_output(["blockdev", "--getsz", faulty]))
        self.good = f"0 {size} linear {disk} 0"
        self.tables = (f"0 {size} error", f"0 {size} flakey {disk} 0 0 1 1 error_writes", f"0 {size} delay {disk} 0 20",
                       f"0 1024 linear {disk} 0\n1024 {size - 1024} error")

    def dmsetup(self, *words):
        subprocess.run(["dmsetup", "--noudevsync", *words], check=True, stdout=subprocess.DEVNULL)

    def pause(self):
        time.sleep(self.rng.random() * 0.3)

    def table(self, lines):
        self.dmsetup("load", self.name, "--table", lines)
        self.dmsetup("suspend", "--noflush", "--nolockfs", self.name)
        self.pause()
        self.dmsetup("resume", self.name)

    def bad_disk(self):
        self.table(self.rng.choice(self.tables))
        self.pause()
        self.table(self.good)

    def frozen(self):
        subprocess.run(["fsfreeze", "--freeze", self.directory], check=True)
        self.pause()
        subprocess.run(["fsfreeze", "--unfreeze", self.directory], check=True)

    def resized(self):
        os.truncate(self.directory / "growing", self.rng.choice((0, 511, 512, 1 << 20, 3 << 20, (2 << 20) + 100)))

    def punched(self):
        subprocess.run(["fallocate", "--punch-hole", "--offset", str(HEAD + self.rng.randrange(1 << 20)), "--length", "1M",
                        self.directory / "guarded-sparse"], check=True)

    def caches(self):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")

    def happen(self):
        kind = self.rng.choice((self.bad_disk, self.bad_disk, self.frozen, self.resized, self.punched, self.caches))
        kind()
        return kind.__name__


class Fuzz:
    """The workers, what befalls them, and whether all is right."""

    def __init__(self, seed, module, directory, faulty, disk):
        self.seed = seed
        self.module = module
        self.directory = directory
        self.faulty = faulty
        self.rng = random.Random(f"{seed}/faults")
        self.faults = Faults(self.rng, directory, faulty, disk)
        self.board = Board()
        self.lives = [0] * WORKERS
        self.pids = [0] * WORKERS
        self.logs = [f"/run/fuzz.{number}" for number in range(WORKERS)]
        for log in self.logs:
            pathlib.Path(log).write_bytes(b"")
        self.lock_path = "/run/fuzz.lock"
        self.lock = os.open(self.lock_path, os.O_RDWR | os.O_CREAT)
        self.tally = collections.Counter()

    def start(self, number):
        self.board.begin(number, 0)
        pid = os.fork()
        if pid == 0:
            try:
                log = os.open(self.logs[number], os.O_WRONLY | os.O_APPEND)
                worker = Worker(self.board, number, self.lives[number], self.seed, self.module, self.directory, self.faulty, log)
                # A lock is that of an opening, which fork() shares.
                worker.run(os.open(self.lock_path, os.O_RDWR))
            except BaseException as error:  # pylint: disable=broad-except
                os.write(log, f"{worker.words} = WRONG {error!r}\n".encode())
            os._exit(1)
        self.pids[number] = pid

    def kill(self, number):
        os.kill(self.pids[number], signal.SIGKILL)
        begin = time.monotonic()
        while os.waitpid(self.pids[number], os.WNOHANG)[0] == 0:
            if time.monotonic() > begin + LIMIT:
                raise Wrong(f"killed worker {number} does not end: " + self.tail(number))
            time.sleep(0.01)
        self.tally["killed"] += 1
        self.lives[number] += 1

    def tail(self, number):
        lines = pathlib.Path(self.logs[number]).read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])

    def overdue(self):
        now = time.monotonic()
        for number in range(WORKERS):
            since = self.board.since(number)
            if since and now > since + LIMIT:
                raise Wrong(f"worker {number} is in its operation for {LIMIT} s, after\n" + self.tail(number))
            if "= WRONG" in pathlib.Path(self.logs[number]).read_text(errors="replace"):
                raise Wrong(f"worker {number}:\n" + self.tail(number))

    def halt(self):
        """Until no worker is in an operation."""
        self.board.halt(True)
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                self.overdue()
                time.sleep(0.01)

    def go_on(self):
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        self.board.halt(False)

    def check(self):
        """With no worker in an operation. What comes to its end by itself gets a moment for that."""
        for attempt in range(20):
            wrong = self.look()
            if not wrong:
                self.tally["checks"] += 1
                return
            time.sleep(0.1)
        raise Wrong("\n".join(wrong))

    def look(self):
        listed = {row["name"]: row for row in json.loads(subprocess.check_output(
            ["losetup", "--list", "--json", "--output", "NAME,BACK-FILE,OFFSET,SIZELIMIT,AUTOCLEAR,RO,DIO,LOG-SEC"]) or
            '{"loopdevices": []}')["loopdevices"]}
        wrong = []
        stacked = bound = 0
        for path in pathlib.Path("/sys/block").glob("loop*"):
            number = int(path.name[4:])
            try:
                if is_bound(number):
                    bound += 1
                    file = sysfs(number, "loop/backing_file").read_text().strip()
                    stacked += file.startswith("/dev/loop")
                    wrong += self.look_at_bound(number, file, listed.get(node(number)))
                else:
                    wrong += self.look_at_unbound(number, listed.get(node(number)))
            except OSError as error:
                wrong.append(f"loop{number}: {error!r}")
        openings = sum(path.startswith("/dev/loop") for path in self.opened())
        references = int(pathlib.Path(f"/sys/module/{self.module}/refcnt").read_text())
        if references != openings + bound + stacked:
            wrong.append(f"{references} references, {openings} openings, {bound} bound, {stacked} of these to loop devices")
        return wrong

    @staticmethod
    def opened():
        """What all processes have open."""
        paths = []
        for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                paths.append(os.readlink(link))
        return paths

    def open_to_look(self, number):
        """None if the device lets nobody in any more."""
        try:
            return os.open(node(number), os.O_RDONLY)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            self.tally["rundown seen"] += 1
            return None

    def look_at_bound(self, number, file, row):
        fd = self.open_to_look(number)
        if fd is None:
            return [] if node(number) in self.opened() else [f"loop{number} lets nobody in, and nobody has it open"]
        attributes = {name: int(sysfs(number, f"loop/{name}").read_text())
                      for name in ("offset", "sizelimit", "autoclear", "partscan", "dio")}
        try:
            info = ioctl.get_info64(fd)
            size = struct.unpack("Q", fcntl.ioctl(fd, BLKGETSIZE64, bytes(8)))[0]
            block_size = struct.unpack("i", fcntl.ioctl(fd, BLKSSZGET, bytes(4)))[0]
        finally:
            os.close(fd)
        stat = os.stat(file)
        host = os.open(file, os.O_RDONLY)
        file_size = os.lseek(host, 0, os.SEEK_END)
        os.close(host)
        seen = {
            "number": (info.number, number),
            "offset": (info.offset, attributes["offset"]),
            "sizelimit": (info.sizelimit, attributes["sizelimit"]),
            "autoclear": (bool(info.flags & 4), bool(attributes["autoclear"])),
            "partscan": (bool(info.flags & 8), bool(attributes["partscan"])),
            "dio": (bool(info.flags & 16), bool(attributes["dio"])),
            "unknown flags": (info.flags & ~29, 0),
            "read-only": (bool(info.flags & 1), sysfs(number, "ro").read_text() == "1\n"),
            "inode": (info.inode, stat.st_ino),
            "device": (info.device, stat.st_dev),
            "encryption": ((info.encrypt_type, info.encrypt_key_size), (0, 0)),
            # What the file wants, whatever the block size of the device.
            "misaligned direct I/O": (bool(attributes["dio"] and info.offset % 512), False),
            "losetup": (row and (row["back-file"], row["offset"], row["sizelimit"], row["autoclear"], row["ro"], row["dio"],
                                 row["log-sec"]),
                        (file, info.offset, info.sizelimit, bool(info.flags & 4), bool(info.flags & 1), bool(info.flags & 16),
                         block_size)),
        }
        # Of the others the size may have changed below the device.
        if "guarded" in file or "plain" in file or "partitioned" in file:
            room = max(0, file_size - info.offset)
            seen["size"] = (size, min(room, info.sizelimit or room) & ~511)
        if self.module != "loop":
            counts = {name: int(sysfs(number, f"loop/{name}").read_text()) for name in os.listdir(sysfs(number, "loop"))
                      if name.startswith(("not_tried_", "inline_again", "punted", "blocking_writes"))}
            seen["blocking writes"] = (counts.pop("blocking_writes"), 0)
            seen["punted"] = (counts.pop("punted"), sum(counts.values()))
        self.tally["bound seen"] += 1
        return [f"loop{number}, {file}: {what}: {here} and {there}" for what, (here, there) in seen.items() if here != there]

    def look_at_unbound(self, number, row):
        fd = os.open(node(number), os.O_RDONLY)
        try:
            try:
                ioctl.get_info64(fd)
                status = "some"
            except OSError as error:
                status = name_of(error)
        finally:
            os.close(fd)
        seen = {
            "status": (status, "ENXIO"),
            "size": (sysfs(number, "size").read_text(), "0\n"),
            "block size": (sysfs(number, "queue/logical_block_size").read_text(), "512\n"),
            "losetup": (row, None),
            "partitions": (list(sysfs(number, "").glob("loop*p*")), []),
            "inflight": (sysfs(number, "inflight").read_text().split(), ["0", "0"]),
        }
        self.tally["unbound seen"] += 1
        return [f"loop{number}, unbound: {what}: {here} and {there}" for what, (here, there) in seen.items() if here != there]

    def load(self):
        """I/O many requests deep, of which nobody cares how it ends, on a device that may be anything; None if it lets nobody in."""
        try:
            fd = os.open(node(self.rng.choice(DEVICES)), os.O_RDONLY)
        except OSError:
            return None
        try:
            # Not by its node: if that comes while fio looks, fio takes it for a file that is to be made anew, and unlinks it.
            return subprocess.Popen(
                ["fio", "--name=load", f"--filename=/proc/self/fd/{fd}", "--rw=randrw", "--bs=4k", "--size=1M",
                 "--direct=1", "--ioengine=io_uring", "--iodepth=32", "--time_based", f"--runtime={LIMIT}", "--allow_file_create=0",
                 "--continue_on_error=all", "--thread"], pass_fds=[fd], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            os.close(fd)

    def round(self):
        load = self.load()
        end = time.monotonic() + ROUND
        while time.monotonic() < end:
            self.tally[self.faults.happen()] += 1
            if self.rng.random() < 0.3:
                number = self.rng.randrange(WORKERS)
                self.kill(number)
                self.start(number)
            self.overdue()
        if load:
            load.kill()
            load.wait(LIMIT)
        self.halt()
        self.check()
        self.go_on()

    def release(self):
        """All devices let go of, by all."""
        for number in range(WORKERS):
            self.kill(number)
        self.let_go()
        self.check()
        left = [number for number in DEVICES if is_bound(number)]
        if left:
            raise Wrong(f"still bound: {left}")

    @staticmethod
    def let_go():
        # From the top of a stack downwards.
        for _ in DEVICES:
            for number in DEVICES:
                if is_bound(number):
                    with contextlib.suppress(OSError):
                        fd = os.open(node(number), os.O_RDONLY)
                        with contextlib.suppress(OSError):
                            fcntl.ioctl(fd, ioctl.LOOP_CLR_FD, 0)
                        os.close(fd)

    def run(self, seconds):
        end = time.monotonic() + seconds
        for number in range(WORKERS):
            self.start(number)
        while time.monotonic() < end:
            self.round()
        self.release()


def make_files(directory, rng):
    directory = pathlib.Path(directory)
    head = rng.randbytes(HEAD)
    (directory / "plain.head").write_bytes(head)
    for name in ("guarded", "guarded-sparse", "plain", "partitioned", "growing"):
        with open(directory / name, "wb") as file:
            file.write(head)
            if name != "guarded-sparse":
                file.write(rng.randbytes(SIZE - HEAD))
            file.truncate(SIZE)
    # Two partitions, by their first sectors and lengths.
    with open(directory / "partitioned", "r+b") as file:
        file.seek(446)
        for start, length in ((8, 64), (128, 200)):
            file.write(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, length))
        file.write(bytes(32) + b"\x55\xaa")


def main(seconds, seed, module, directory, faulty, disk):
    make_files(directory, random.Random(seed))
    fuzz = Fuzz(seed, module, directory, faulty, disk)
    status = 0
    try:
        fuzz.run(float(seconds))
    except Wrong as wrong:
        print(f"seed {seed}: {wrong}")
        status = 1
        for pid in fuzz.pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        fuzz.let_go()
    for log in fuzz.logs:
        for line in pathlib.Path(log).read_text(errors="replace").splitlines():
            words, _, result = line.rpartition(" = ")
            fuzz.tally[f"{words.split()[0]} {result}"] += 1
    print("## fuzz " + json.dumps(dict(sorted(fuzz.tally.items()))))
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
