#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A file system that does not answer: hang.py DIRECTORY FILE [FROM TO [DELAY]]

It has FILE under all names that begin with "file". A read of bytes FROM to TO waits forever, or
with DELAY returns one byte after so many seconds. These files in the current directory change that:
with "dead" each request waits forever, with "unflushed" each close of FILE does, and with "cached"
read data stays in memory. FUSE is in the kernel, so a process waits in a system call, as with NFS.
A file "ready" appears when the file system is mounted.
"""
import ctypes
import os
import struct
import sys
import time

INIT, LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE = 26, 1, 2, 3, 14, 15, 18
STATFS, FLUSH, INTERRUPT, BATCH_FORGET = 17, 25, 36, 42
ENOENT, ENOSYS = -2, -38
DIRECT_IO = 1
ROOT, FILE = 1, 2


def attributes(node, size):
    mode = 0o40755 if node == ROOT else 0o100755
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body, data, gap):
    """Bytes of the answer, or an error; None if there is none."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, 0, *[0] * 7)
    if opcode == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node, len(data))
    if opcode == STATFS:
        return struct.pack("<5Q10I", 0, 0, 0, 0, 0, 4096, 255, 4096, *[0] * 7)
    if opcode == LOOKUP:
        if not body.startswith(b"file"):
            return ENOENT
        return struct.pack("<QQQQII", FILE, 0, 0, 0, 0, 0) + attributes(FILE, len(data))
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0 if os.path.exists("cached") else DIRECT_IO, 0)
    if opcode == READ:
        offset, size = struct.unpack_from("<QI", body, 8)
        if offset < gap[1] and offset + size > gap[0]:
            if not gap[2]:
                return None
            time.sleep(gap[2])
            size = 1
        return data[offset:offset + size]
    if opcode == FLUSH:
        return None if os.path.exists("unflushed") else b""
    return b"" if opcode == RELEASE else ENOSYS


def main():
    gap = ([int(arg, 0) for arg in sys.argv[3:5]] or [0, 0]) + [float((sys.argv + [0] * 5)[5])]
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    fuse = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hang", sys.argv[1].encode(), b"fuse", 0,
                  b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse):
        sys.exit(os.strerror(ctypes.get_errno()))
    with open("ready", "w", encoding="ascii"):
        pass
    while True:
        request = os.read(fuse, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT) or os.path.exists("dead"):
            continue
        reply = answer(opcode, node, request[40:], data, gap)
        if reply is None:
            continue
        error, reply = (reply, b"") if isinstance(reply, int) else (0, reply)
        os.write(fuse, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)


main()
