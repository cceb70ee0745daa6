#!/usr/bin/python3 -I
# SPDX-License-Identifier: GPL-2.0
"""What users and machines do to loop devices, at random, many at once, until the time is over.

	soak.py [--leaks] SECONDS SEED DIRECTORY FLAWED DISK...

DIRECTORY is on one lower file system, on each DISK another one is made; FLAWED is a disk that is made to fail. All is
lost on these disks. WORKERS operations are under way at any time. What an operation does is drawn from SEED, its worker
and its number, and told in the log, so that it can be done again alone; how they meet is chance.

Data is verified end to end: by the checksums fio writes, through the device and in the image, by checksums of files, and
by fsck. At the end the driver is unloaded and, with --leaks, kmemleak asked for what is lost. The last line is "## soak
{JSON}" of what was done; the status is 1 if anything was wrong or took LIMIT seconds, or if the kernel has warned.
"""
import collections
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time

WORKERS = 4
LIMIT = 600
# Reads, and writes, a second of a load. More would leave a slow machine no time for anything else.
LOAD = 300
TREE = "/usr/share/perl5"
MODES = ("auto", "always", "reads", "never")
MEGABYTE = 1 << 20
FS_IOC_SHUTDOWN = 0x8004587D


class Failure(Exception):
    """What must not happen: it ends the soak."""


class Tally:
    """What was done, by all workers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()

    def add(self, name, count=1):
        with self.lock:
            self.counts[name] += count


tally = Tally()


def run(*words, status=0, cgroup=None, **options):
    """A command to its end, in a CGROUP; its output. Failure if it ends with another STATUS (None: any) or not at all."""
    if cgroup:
        words = ("sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', cgroup, *words)
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, text=True, errors="replace", **options)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        pathlib.Path("/proc/sysrq-trigger").write_text("w")
        raise Failure(f"no end after {LIMIT} s: {words}") from None
    if status is not None and process.returncode != status:
        raise Failure(f"status {process.returncode} of {words}: {output[-3000:]}")
    return output


def group(device):
    return pathlib.Path("/sys/block") / pathlib.Path(device).name / "loop"


def backing_file(device):
    """The path of the file, also of one that is unlinked; None without one."""
    try:
        return (group(device) / "backing_file").read_text().strip().removesuffix(" (deleted)")
    except OSError:
        return None


def read_counters(device):
    """Adds what the device has counted, before it is let go."""
    with contextlib.suppress(OSError):
        for file in group(device).iterdir():
            if file.name.startswith(("inline_", "not_tried_", "punted")):
                tally.add(file.name, int(file.read_text()))


def detach(device, path):
    """Lets PATH go, and waits for whoever has the device open still. It may be done already, and the device another
    worker's by now: while it is open here, that does not change."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        if backing_file(device) == path:
            read_counters(device)
            run("losetup", "--detach", device, status=None)
    finally:
        os.close(descriptor)
    for _ in range(LIMIT * 10):
        if backing_file(device) != path:
            return
        time.sleep(0.1)
    raise Failure(f"{device} stays bound")


@contextlib.contextmanager
def attached(rng, image, *options, dio=None):
    """A loop device on IMAGE, in a mode of its own."""
    dio = dio or rng.choice(("on", "off"))
    device = run("losetup", "--find", "--show", f"--direct-io={dio}", *options, image).strip()
    path = backing_file(device)
    try:
        with contextlib.suppress(OSError):
            (group(device) / "nowait").write_text(rng.choice(MODES))
        yield device
    finally:
        detach(device, path)


@contextlib.contextmanager
def mounted(rng, device, where):
    where.mkdir(exist_ok=True)
    run("mount", "-o", rng.choice(("strictatime", "relatime", "noatime")), device, where)
    try:
        yield where
    finally:
        run("umount", where)


def make_fs(kind, device):
    run(*{"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f"), "btrfs": ("mkfs.btrfs", "-q", "-f"),
          "f2fs": ("mkfs.f2fs", "-q", "-f")}[kind], device)


def check_fs(kind, device):
    run(*{"ext4": ("e2fsck", "-f", "-n"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check"),
          "f2fs": ("fsck.f2fs", "--dry-run")}[kind], device)


def make_image(rng, where, size, sparse=None):
    """A file of SIZE bytes; allocated, or not yet."""
    image = where / f"image-{rng.getrandbits(64):x}"
    with open(image, "wb") as file:
        if sparse if sparse is not None else rng.random() < 0.5:
            file.truncate(size)
        else:
            os.posix_fallocate(file.fileno(), 0, size)
    return image


class Fio:
    """One way to write and verify, so that it can be verified again elsewhere. Not by fio's io_uring: interrupted in its
    wait, as by sleep, fio 3.39 writes blocks twice and others not, verifies the former and says it went well."""

    def __init__(self, rng, size):
        self.size = size
        self.fixed = ["--name=soak", f"--size={size}", f"--bs={rng.choice(('4k', '4k', '16k', '64k', '256k'))}",
                      f"--rw={rng.choice(('write', 'randwrite', 'randwrite'))}", f"--randseed={rng.getrandbits(32)}",
                      "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--allow_file_create=0"]
        self.how = [f"--ioengine={rng.choice(('psync', 'libaio'))}",
                    f"--iodepth={rng.choice((1, 8, 32, 128))}", f"--direct={rng.choice((0, 1, 1))}"]

    def write(self, target, **options):
        """Writes and verifies."""
        run("fio", f"--filename={target}", *self.fixed, *self.how, "--do_verify=1", "--end_fsync=1", **options)
        tally.add("bytes_verified", self.size)

    def verify(self, target):
        """Verifies once more. A failure says what the disk has, if the page cache is wrong, and how it was written."""
        how = [f"--filename={target}", *self.fixed, "--ioengine=psync", "--verify_only"]
        try:
            run("fio", *how, "--direct=0")
        except Failure as failure:
            past_cache = run("fio", *how, "--direct=1", status=None)
            extents = run("filefrag", "-v", target, status=None)
            raise Failure(f"{failure}\nwritten with {self.how}; past the page cache: {past_cache}\n{extents}") from None
        tally.add("bytes_verified", self.size)


@contextlib.contextmanager
def load(device, *options):
    """Random reads and writes beside, of which nobody cares how they end. All of them have ended then: fio's jobs are threads,
    as processes they have sessions of their own and are not killed; what is under way by io_uring could outlive them."""
    process = subprocess.Popen(["fio", "--thread", "--name=load", f"--filename={device}", "--rw=randrw", "--bs=4k",
                                "--direct=1", "--ioengine=libaio", "--iodepth=16", f"--rate_iops={LOAD}", "--time_based",
                                f"--runtime={LIMIT}", "--allow_file_create=0", *options],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pathlib.Path("/proc/sysrq-trigger").write_text("w")
            raise Failure(f"a killed load on {device} does not end") from None


@contextlib.contextmanager
def little_memory(where, size):
    """A cgroup of the worker's own with so many bytes of memory, which is gone afterwards. Nothing is killed for it, but who
    cannot do with that much is slowed down without end."""
    cgroup = pathlib.Path("/sys/fs/cgroup") / f"soak-{where.name}"
    cgroup.mkdir()
    try:
        (cgroup / "memory.high").write_text(str(size))
        yield cgroup
    finally:
        for _ in range(LIMIT * 10):
            with contextlib.suppress(OSError):
                cgroup.rmdir()
                break
            time.sleep(0.1)
        else:
            raise Failure(f"{cgroup} cannot be removed")


def tree_sum(where):
    total = hashlib.sha256()
    for path in sorted(where.rglob("*")):
        if path.is_file() and not path.is_symlink():
            total.update(str(path.relative_to(where)).encode() + b"\0" + path.read_bytes())
            tally.add("bytes_verified", path.stat().st_size)
    return total.hexdigest()


# Operations: (rng, where), WHERE a directory of the worker's own on one of the lower file systems.


def verify(rng, where):
    """Written and verified through the device, then in the image."""
    size = rng.choice((8, 16, 32)) * MEGABYTE
    image = make_image(rng, where, size)
    fio = Fio(rng, size)
    with attached(rng, image, "--sector-size", rng.choice((512, 4096))) as device:
        fio.write(device)
    fio.verify(image)
    image.unlink()


def filesystem(rng, where, then=None):
    """A file system in the image, filled, mounted anew, compared and checked."""
    kind = rng.choice(("ext4", "xfs", "btrfs"))
    image = make_image(rng, where, 320 * MEGABYTE, sparse=True)
    with attached(rng, image) as device:
        make_fs(kind, device)
        with mounted(rng, device, where / "upper") as upper:
            run("cp", "-a", TREE, upper / "tree")
            if then:
                (upper / "inner").mkdir()
                then(rng, upper / "inner")
        with mounted(rng, device, where / "upper") as upper:
            if tree_sum(upper / "tree") != tree_sum(pathlib.Path(TREE)):
                raise Failure(f"{kind} on {device}: not the files that were written")
        check_fs(kind, device)
    image.unlink()


def nested(rng, where):
    """A loop device on a file system on a loop device."""
    filesystem(rng, where, then=verify)


def changes(rng, where):
    """Direct I/O, mode, name and capacity are changed under I/O that is verified."""
    size = 16 * MEGABYTE
    image = make_image(rng, where, size)
    fio = Fio(rng, size)
    with attached(rng, image) as device:
        end = threading.Event()
        errors = []

        def change_all():
            try:
                change()
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)

        def change():
            while not end.is_set():
                what = rng.randrange(5)
                if what == 0:
                    run("losetup", f"--direct-io={rng.choice(('on', 'off'))}", device, status=None)
                elif what == 1:
                    with contextlib.suppress(OSError):
                        (group(device) / "nowait").write_text(rng.choice(MODES))
                elif what == 2:
                    os.truncate(image, size + rng.randrange(4) * MEGABYTE)
                    run("losetup", "--set-capacity", device)
                elif what == 3:
                    run("modprobe", "--remove", os.environ["DRIVER"], status=1)
                else:
                    for file in group(device).iterdir():
                        file.read_text()
                tally.add("changes")
                time.sleep(rng.random() / 10)

        thread = threading.Thread(target=change_all)
        thread.start()
        try:
            fio.write(device)
        finally:
            end.set()
            thread.join()
        if errors:
            raise Failure(f"a change: {errors[0]!r}")
    fio.verify(image)
    image.unlink()


def detach_under_load(rng, where):
    """Let go of under I/O, by a task that is killed or not."""
    image = make_image(rng, where, 32 * MEGABYTE)
    engine = rng.choice(("libaio", "io_uring"))
    with attached(rng, image) as device, load(device, f"--ioengine={engine}") as process:
        time.sleep(rng.random() * 2)
        if rng.random() < 0.5:
            run("losetup", "--detach", device)
        else:
            os.killpg(process.pid, signal.SIGKILL)
            tally.add("kills")
    image.unlink()


def killed_mount(rng, where):
    """mount and losetup are killed at a random moment; what they leave is let go."""
    image = make_image(rng, where, 64 * MEGABYTE, sparse=True)
    make_fs("ext4", image)
    upper = where / "upper"
    upper.mkdir(exist_ok=True)
    for _ in range(5):
        process = subprocess.Popen(["mount", "-o", "loop", image, upper], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(rng.random() / 5)
        process.kill()
        process.wait(LIMIT)
        tally.add("kills")
        run("umount", upper, status=None)
        for device in run("losetup", "--noheadings", "--output", "NAME", "--associated", image).split():
            detach(device, str(image))
    check_fs("ext4", image)
    image.unlink()


def cut(rng, where):
    """The image is cut off, grown and punched under load, and then unlinked. What is written afterwards is there."""
    size = 16 * MEGABYTE
    image = make_image(rng, where, size)
    with open(image, "r+b") as file, attached(rng, image) as device:
        with load(device, "--continue_on_error=all"):
            for _ in range(rng.randrange(2, 6)):
                at = rng.randrange(size)
                if rng.random() < 0.5:
                    file.truncate(at)
                    time.sleep(rng.random() / 2)
                else:
                    run("fallocate", "--punch-hole", "--offset", at, "--length", rng.randrange(1, size), image)
                file.truncate(size)
                tally.add("faults_cut")
        image.unlink()
        fio = Fio(rng, size)
        fio.write(device)
        fio.verify(f"/proc/{os.getpid()}/fd/{file.fileno()}")


def crypt(rng, where):
    """dm-crypt on the device, written by a task with little memory."""
    size = 16 * MEGABYTE
    image = make_image(rng, where, size)
    name = f"soak-{where.name}"
    with attached(rng, image) as device, little_memory(where, 64 * MEGABYTE) as cgroup:
        run("dmsetup", "create", name, "--table", f"0 {size >> 9} crypt aes-xts-plain64 {'07' * 32} 0 {device} 0")
        try:
            Fio(rng, size).write(f"/dev/mapper/{name}", cgroup=cgroup)
        finally:
            run("dmsetup", "remove", "--retry", name)
    image.unlink()


def swap(rng, where):
    """Swap on the device, by a task that has less memory than it uses. With direct I/O: otherwise the page cache of the image is
    charged to the same cgroup, and the kernel delays those who exceed memory.high, workers of either driver among them, the more
    the longer."""
    image = make_image(rng, where, 128 * MEGABYTE)
    with attached(rng, image, dio="on") as device, little_memory(where, 24 * MEGABYTE) as cgroup:
        run("mkswap", device)
        run("swapon", device)
        try:
            run("stress-ng", "--vm", 1, "--vm-bytes", "40M", "--vm-method", "incdec", "--vm-ops", 1, "--verify",
                cgroup=cgroup)
            tally.add("faults_swap")
        finally:
            run("swapoff", device)
    image.unlink()


def shut_down(rng, where):
    """A lower file system is shut down under load. Mounted anew it is clean."""
    kind = rng.choice(("ext4", "xfs"))
    outer = make_image(rng, where, 320 * MEGABYTE, sparse=True)
    with attached(rng, outer) as lower:
        make_fs(kind, lower)
        with mounted(rng, lower, where / "lower") as lower_dir:
            with attached(rng, make_image(rng, lower_dir, 32 * MEGABYTE)) as device:
                with load(device, "--continue_on_error=all"):
                    time.sleep(rng.random() * 2)
                    directory = os.open(lower_dir, os.O_RDONLY)
                    try:
                        fcntl.ioctl(directory, FS_IOC_SHUTDOWN, struct.pack("I", rng.randrange(3)))
                    finally:
                        os.close(directory)
                    time.sleep(rng.random())
                    tally.add("faults_shut_down")
        with mounted(rng, lower, where / "lower"):
            pass
        check_fs(kind, lower)
    outer.unlink()


def sleep(rng, where):
    """Tasks and workqueues are frozen, as when the system goes to sleep, and wake up. The kernel gives up on that if one of
    its threads waits for a disk whose workqueue it has stopped already, with either driver."""
    del rng, where
    with load_lock:
        test = pathlib.Path("/sys/power/pm_test")
        test.write_text("freezer")
        try:
            pathlib.Path("/sys/power/state").write_text("freeze")
            tally.add("faults_sleep")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            tally.add("faults_sleep_refused")
        finally:
            test.write_text("none")


def freeze(rng, where):
    """The lower file system frozen under everybody who uses it."""
    with load_lock:
        mountpoint = run("findmnt", "--noheadings", "--output", "TARGET", "--target", where).strip()
        run("fsfreeze", "--freeze", mountpoint)
        try:
            time.sleep(rng.random() * 2)
        finally:
            run("fsfreeze", "--unfreeze", mountpoint)
        tally.add("faults_freeze")


def full(rng, where):
    """A lower file system that has no space left, and then has."""
    outer = make_image(rng, where, 48 * MEGABYTE, sparse=True)
    with attached(rng, outer) as lower:
        make_fs("ext4", lower)
        with mounted(rng, lower, where / "lower") as lower_dir:
            image = make_image(rng, lower_dir, 24 * MEGABYTE, sparse=True)
            run("fallocate", "--length", "100M", lower_dir / "filler", status=None)
            run("dd", "if=/dev/zero", f"of={lower_dir / 'filler2'}", "bs=64k", status=None)
            fio = Fio(rng, 24 * MEGABYTE)
            with attached(rng, image) as device:
                run("fio", "--name=full", f"--filename={device}", "--rw=write", "--bs=64k", "--size=24M", "--direct=1",
                    "--allow_file_create=0", "--end_fsync=1", status=None)
                for filler in lower_dir.glob("filler*"):
                    filler.unlink()
                tally.add("faults_full")
                fio.write(device)
            fio.verify(image)
        check_fs("ext4", lower)
    outer.unlink()


def flawed(rng, where):
    """A disk below that fails, is suspended, and is well again."""
    del where
    with load_lock:
        sectors = int(run("blockdev", "--getsz", FLAWED))
        linear = f"0 {sectors} linear {FLAWED} 0"
        faults = {"error": f"0 {sectors} error", "flakey": f"0 {sectors} flakey {FLAWED} 0 0 1 1 error_writes",
                  "delay": f"0 {sectors} delay {FLAWED} 0 50"}

        def table(lines, name="soak-flawed"):
            run("dmsetup", "suspend", "--noflush", name)
            time.sleep(rng.random())
            run("dmsetup", "load", name, "--table", lines)
            run("dmsetup", "resume", name)

        run("dmsetup", "create", "soak-flawed", "--table", linear)
        try:
            fio = Fio(rng, 16 * MEGABYTE)
            with attached(rng, "/dev/mapper/soak-flawed") as device:
                with load(device, "--continue_on_error=all", f"--size={16 * MEGABYTE}"):
                    for _ in range(rng.randrange(1, 4)):
                        fault = rng.choice(list(faults))
                        table(faults[fault])
                        time.sleep(rng.random())
                        table(linear)
                        tally.add(f"faults_{fault}")
                # What could not be written back meanwhile is for the next flush to say, once.
                descriptor = os.open(device, os.O_RDWR)
                with contextlib.suppress(OSError):
                    os.fsync(descriptor)
                os.close(descriptor)
                fio.write(device)
        finally:
            run("dmsetup", "remove", "--retry", "soak-flawed")


def pressure(rng, where):
    """Memory taken away for a while, and what is cached."""
    del where
    with load_lock:
        available = next(int(line.split()[1]) for line in open("/proc/meminfo", encoding="ascii")
                         if line.startswith("MemAvailable"))
        pathlib.Path("/proc/sys/vm/drop_caches").write_text(str(rng.randrange(1, 4)))
        run("stress-ng", "--vm", 1, "--vm-bytes", f"{available * rng.randrange(40, 70) // 100}k", "--timeout", "4")
        tally.add("faults_memory")


OPERATIONS = {verify: 6, filesystem: 4, nested: 3, changes: 4, detach_under_load: 3, killed_mount: 2, cut: 2, crypt: 2,
              swap: 1, shut_down: 2, sleep: 1, freeze: 2, full: 1, flawed: 2, pressure: 1}
# Of those that hold it there is but one at a time.
load_lock = threading.Lock()


def kernel_warnings():
    """What the kernel has warned of, with context, and how often. tools/kernel-warnings prints ten at most."""
    pathlib.Path("/run/soak-dmesg").write_text(run("dmesg"), encoding="utf-8")
    found = run("/bed/tools/kernel-warnings", "/run/soak-dmesg", status=None)
    return found, sum(1 for line in found.splitlines() if re.match(r"\d+:", line))


def leaks():
    """What kmemleak has found since the beginning, and how many."""
    found = run("bash", "-c", ". /bed/tools/guest-lib.sh && print_leaks")
    return found, found.count("unreferenced object")


def lock_validation_ended():
    """Lockdep, in a kernel that has it, ends with its first report, or when it is out of memory."""
    file = pathlib.Path("/proc/lockdep_stats")
    return file.exists() and not re.search(r"^ *debug_locks: *1$", file.read_text(encoding="ascii"), re.MULTILINE)


class Soak:
    """Workers and when they end."""

    def __init__(self, seconds, seed, lowers):
        self.begin = time.monotonic()
        self.deadline = self.begin + seconds
        self.seed = seed
        self.lowers = lowers
        self.failures = []
        self.warnings = 0

    def say(self, text):
        print(f"## {time.monotonic() - self.begin:7.1f} {text}", flush=True)

    def work(self, worker):
        number = 0
        while time.monotonic() < self.deadline and not self.failures:
            rng = random.Random(f"{self.seed}/{worker}/{number}")
            operation = rng.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
            where = rng.choice(self.lowers) / f"worker{worker}"
            where.mkdir(exist_ok=True)
            name = f"{worker}/{number} {operation.__name__} in {where.parent}"
            self.say(name)
            try:
                operation(rng, where)
                tally.add(f"op_{operation.__name__}")
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(f"{name}: {error!r}")
                self.say(f"FAILED {name}: {error}")
            number += 1

    def watch(self):
        """What the kernel warns of ends the soak, while it can be seen what has led there."""
        found, self.warnings = kernel_warnings()
        if self.warnings:
            self.failures.append(f"{self.warnings} kernel warnings")
            self.say(f"FAILED: the kernel has warned: {found}")

    def finish(self):
        """What is to be so after it."""
        for lower in self.lowers[1:]:
            run("umount", lower)
        run("udevadm", "settle")
        run("modprobe", "--remove", os.environ["DRIVER"])
        if lock_validation_ended():
            raise Failure("the kernel does not validate locks any more")


def main(*words):
    look_for_leaks = words[0] == "--leaks"
    seconds, seed, directory, flawed_disk, *disks = words[look_for_leaks:]
    global FLAWED
    FLAWED = flawed_disk
    lowers = [pathlib.Path(directory)]
    for kind, disk in zip(("xfs", "btrfs", "f2fs"), disks):
        make_fs(kind, disk)
        lower = pathlib.Path(f"/run/soak-{kind}")
        lower.mkdir(exist_ok=True)
        run("mount", disk, lower)
        lowers.append(lower)
    soak = Soak(float(seconds), seed, lowers)
    threads = [threading.Thread(target=soak.work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(30)
            if not soak.warnings:
                soak.watch()
    seconds = round(time.monotonic() - soak.begin)
    found = {}
    try:
        soak.finish()
        if look_for_leaks:
            what, found["leaks"] = leaks()
            if found["leaks"]:
                raise Failure(what)
    except Exception as error:  # pylint: disable=broad-except
        soak.failures.append(f"at the end: {error}")
    if not soak.warnings:
        soak.watch()
    for line in soak.failures:
        print(line)
    print("## soak " + json.dumps({"kernel": os.uname().release, "driver": os.environ["DRIVER"], "seconds": seconds,
                                   "seed": seed, "failures": len(soak.failures), "warnings": soak.warnings, **found,
                                   **dict(sorted(tally.counts.items()))}), flush=True)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
