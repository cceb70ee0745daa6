#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0
"""One ioctl of <linux/loop.h> (or a partition added by hand, <linux/blkpg.h>), for the selftests.

	ioctl.py REQUEST TARGET [NAME=VALUE]...

TARGET is a device node, or the number of an inherited descriptor. Prints the result; on failure the name of the errno
("open:" and the errno if it was TARGET that could not be opened), and exits 1. The requests stand in REQUESTS with the
names they take; open=ro, open=excl and open=ro+excl fit all of them.
"""
import array
import errno
import fcntl
import os
import struct
import sys

LOOP_SET_FD = 0x4C00
LOOP_CLR_FD = 0x4C01
LOOP_SET_STATUS = 0x4C02
LOOP_GET_STATUS = 0x4C03
LOOP_SET_STATUS64 = 0x4C04
LOOP_GET_STATUS64 = 0x4C05
LOOP_CHANGE_FD = 0x4C06
LOOP_SET_CAPACITY = 0x4C07
LOOP_SET_DIRECT_IO = 0x4C08
LOOP_SET_BLOCK_SIZE = 0x4C09
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_ADD = 0x4C80
LOOP_CTL_REMOVE = 0x4C81
LOOP_CTL_GET_FREE = 0x4C82
BLKPG = 0x1269
BLKPG_ADD_PARTITION = 1

FLAGS = {"read_only": 1, "autoclear": 4, "partscan": 8, "direct_io": 16}

# struct loop_info64: device inode rdevice offset sizelimit, number encrypt_type encrypt_key_size flags, file_name,
# crypt_name, encrypt_key, init
INFO64 = struct.Struct("=5Q4I64s64s32s2Q")
# struct loop_info of 64-bit programs: number device inode rdevice offset encrypt_type encrypt_key_size flags name
# encrypt_key init reserved
INFO = struct.Struct("@iLLLiiii64s32s2L4s0L")
# struct loop_config: fd block_size info reserved
CONFIG_HEAD = struct.Struct("=II")
CONFIG_TAIL = bytes(64)
# struct blkpg_ioctl_arg: op flags datalen data. struct blkpg_partition: start length pno devname volname
BLKPG_ARG = struct.Struct("@iiiP")
BLKPG_PARTITION = struct.Struct("@qqi64s64s0q")


def number(text):
    return int(text, 0)


def flags(text):
    """The sum of names or numbers, separated by "+"; an empty text is no flag."""
    return sum(FLAGS[f] if f in FLAGS else number(f) for f in text.split("+") if f)


def flag_names(value):
    names = [name for name, bit in FLAGS.items() if value & bit]
    rest = value & ~sum(FLAGS.values())
    return "+".join(names + ([hex(rest)] if rest else []))


def descriptor(text, mode=os.O_RDWR):
    """An inherited descriptor's number, or a path to open."""
    return int(text) if text.lstrip("-").isdigit() else os.open(text, mode)


def backing(opts):
    """The backing file's descriptor: file=PATH_OR_NUMBER, mode=rw|ro|wo, +direct."""
    words = opts.get("mode", "rw").split("+")
    mode = {"rw": os.O_RDWR, "ro": os.O_RDONLY, "wo": os.O_WRONLY}[words[0]]
    if "direct" in words:
        mode |= os.O_DIRECT
    return descriptor(opts["file"], mode)


class Info64:
    """struct loop_info64, with the fields that user space sets or looks at."""

    def __init__(self, raw=bytes(INFO64.size)):
        (self.device, self.inode, self.rdevice, self.offset, self.sizelimit, self.number, self.encrypt_type,
         self.encrypt_key_size, self.flags, self.file_name, *self.rest) = INFO64.unpack(raw)

    def update(self, opts):
        self.offset = number(opts.get("offset", str(self.offset)))
        self.sizelimit = number(opts.get("sizelimit", str(self.sizelimit)))
        self.encrypt_type = number(opts.get("encrypt_type", "0"))
        self.encrypt_key_size = number(opts.get("encrypt_key_size", "0"))
        if "flags" in opts:
            self.flags = flags(opts["flags"])
        if "name" in opts:
            self.file_name = opts["name"].encode()
        return self

    def pack(self):
        return INFO64.pack(self.device, self.inode, self.rdevice, self.offset, self.sizelimit, self.number,
                           self.encrypt_type, self.encrypt_key_size, self.flags, self.file_name, *self.rest)

    def __str__(self):
        name = self.file_name.split(b"\0")[0].decode()
        return (f"number={self.number} offset={self.offset} sizelimit={self.sizelimit} "
                f"flags={flag_names(self.flags)} name={name} inode={self.inode} "
                f"device={os.major(self.device)}:{os.minor(self.device)}")


def get_info64(fd):
    raw = bytearray(INFO64.size)
    fcntl.ioctl(fd, LOOP_GET_STATUS64, raw)
    return Info64(raw)


def configure(fd, opts):
    """file= mode= block_size= and what Info64.update takes."""
    info = Info64().update(opts)
    head = CONFIG_HEAD.pack(backing(opts) & 0xFFFFFFFF, number(opts.get("block_size", "0")))
    fcntl.ioctl(fd, LOOP_CONFIGURE, head + info.pack() + CONFIG_TAIL)
    return 0


def set_status64(fd, opts):
    """Changes what is named of what is set, as Info64.update takes it."""
    fcntl.ioctl(fd, LOOP_SET_STATUS64, get_info64(fd).update(opts).pack())
    return 0


def get_status64(fd, opts):
    """null=1 passes no structure."""
    return fcntl.ioctl(fd, LOOP_GET_STATUS64, 0) if "null" in opts else get_info64(fd)


def get_status(fd, opts):
    """null=1 passes no structure. The old call, in the size of this program."""
    if "null" in opts:
        return fcntl.ioctl(fd, LOOP_GET_STATUS, 0)
    raw = bytearray(INFO.size)
    fcntl.ioctl(fd, LOOP_GET_STATUS, raw)
    fields = INFO.unpack(raw)
    inode, offset, flag_bits, name = fields[2], fields[4], fields[7], fields[8].split(b"\0")[0].decode()
    return f"number={fields[0]} offset={offset} flags={flag_names(flag_bits)} name={name} inode={inode}"


def add_partition(fd, opts):
    """number= start= length=, in sectors."""
    part = array.array("b", BLKPG_PARTITION.pack(number(opts["start"]) << 9, number(opts["length"]) << 9,
                                                 number(opts["number"]), b"", b""))
    address, size = part.buffer_info()
    fcntl.ioctl(fd, BLKPG, BLKPG_ARG.pack(BLKPG_ADD_PARTITION, 0, size, address))
    return 0


def hold(fd, opts):
    """Keeps the target open until the end of standard input."""
    print("held", flush=True)
    sys.stdin.read()
    return "let go"


def ioctl_word(fd, request, word):
    """A number as the argument, of up to 64 bits, of which fcntl.ioctl passes but 32."""
    if -1 << 31 <= word < 1 << 31:
        return fcntl.ioctl(fd, request, word)
    import ctypes  # takes long to load
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_ulong(word))
    if result < 0:
        raise OSError(ctypes.get_errno(), "ioctl")
    return result


def simple(request, name):
    """A request whose argument is a number, NAME=."""
    return lambda fd, opts: ioctl_word(fd, request, number(opts.get(name, "0")))


REQUESTS = {
    "configure": configure,
    "set-fd": lambda fd, opts: fcntl.ioctl(fd, LOOP_SET_FD, backing(opts)),
    "change-fd": lambda fd, opts: fcntl.ioctl(fd, LOOP_CHANGE_FD, backing(opts)),
    "clr-fd": simple(LOOP_CLR_FD, "arg"),
    "set-status64": set_status64,
    "get-status64": get_status64,
    "get-status": get_status,
    "set-capacity": simple(LOOP_SET_CAPACITY, "arg"),
    "set-direct-io": simple(LOOP_SET_DIRECT_IO, "on"),
    "set-block-size": simple(LOOP_SET_BLOCK_SIZE, "size"),
    "add": simple(LOOP_CTL_ADD, "index"),
    "remove": simple(LOOP_CTL_REMOVE, "index"),
    "get-free": simple(LOOP_CTL_GET_FREE, "arg"),
    "add-partition": add_partition,
    "hold": hold,
    "raw": lambda fd, opts: ioctl_word(fd, number(opts["request"]), number(opts.get("arg", "0"))),
}


def main(request, target, *words):
    opts = dict(word.split("=", 1) for word in words)
    how = opts.pop("open", "").split("+")
    mode = (os.O_RDONLY if "ro" in how else os.O_RDWR) | (os.O_EXCL if "excl" in how else 0)
    try:
        fd = descriptor(target, mode)
    except OSError as error:
        print("open:" + errno.errorcode[error.errno])
        return 1
    try:
        print(REQUESTS[request](fd, opts))
    except OSError as error:
        print(errno.errorcode.get(error.errno, error.errno))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
