#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""hostile.py: write files here whose headers ask for too much work

At first sight they are x86-64 programs. The name of each file says what it has too much of.
"""
import struct

PT_LOAD, PT_INTERP, PT_NOTE, PT_GNU_SFRAME = 1, 3, 4, 0x6474E554
SHT_PROGBITS, SHT_STRTAB, SHT_DYNAMIC = 1, 3, 6
NOTE_OF_OTHERS = struct.pack("<III", 4, 0, 7) + b"ABC\0"


def phdr(kind, offset, size, flags=4):
    return struct.pack("<IIQQQQQQ", kind, flags, offset, 0x1000 + offset, 0, size, size, 4096)


def shdr(name, kind, offset, size, link=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, 2, 0x1000 + offset, offset, size, link, 0, 1, 0)


def ehdr(phnum, shoff=0, shnum=0, shstrndx=0):
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, shoff, 0, 64, 56, phnum,
                               64, shnum, shstrndx)


def write(name, phdrs, rest=b"", shdrs=b"", size=0, shnum=None, shstrndx=0):
    """Write program headers, their contents, section headers, and a hole"""
    start = 64 + len(phdrs)
    shnum = len(shdrs) // 64 if shnum is None else shnum
    with open(name, "wb") as out:
        out.write(ehdr(len(phdrs) // 56, (start + len(rest)) if shdrs else 0, shnum, shstrndx))
        out.write(phdrs + rest + shdrs)
        if size:
            out.truncate(size)


code = phdr(PT_LOAD, 0, 4096, 5)

BUILD_ID = struct.pack("<III", 4, 8, 3) + b"GNU\0" + b"\xab" * 8

# 200 segments without a build-id, all of them the same, and then one with it.
notes = NOTE_OF_OTHERS * 2048
start = 64 + 56 * 202
write("notes", code + phdr(PT_NOTE, start, len(notes)) * 200 +
      phdr(PT_NOTE, start + len(notes), len(BUILD_ID)), notes + BUILD_ID)
# The build-id is the first note of some gigabytes; the file has all of them, or only that one.
write("large-note", code + phdr(PT_NOTE, 64 + 2 * 56, 4 << 30), BUILD_ID, size=8 << 30)
write("cut-note", code + phdr(PT_NOTE, 64 + 2 * 56, 4 << 30), BUILD_ID)
write("far-note", code + phdr(PT_NOTE, 1 << 62, 1 << 15))
write("far-sections", code, shdrs=shdr(0, 0, 0, 0), shnum=60000)

write("segments", code * 9)
write("program-headers", code + phdr(PT_LOAD, 0, 64) * 60000)

# Section names without an end: a search for the end takes as long as there are bytes.
names = b"x" * (16 << 20)
start = 64 + 56
nr = 60000
write("names", code, names, shdr(0, 0, 0, 0) + shdr(0, SHT_STRTAB, start, len(names)) +
      b"".join(shdr(1 + i, SHT_PROGBITS, 0, 64) for i in range(nr)), shstrndx=1)
# More sections than the ELF header can count: the first section header has the number.
write("sections", code, shdrs=shdr(0, 0, 0, 1 << 24), size=8 << 30, shnum=0)
write("odd-sections", code, shdrs=shdr(0, 0, 0, 0), shnum=0xffff)


# Sections in which the kernel finds a function, but after more bad functions, bad rows, or empty
# parts than a session looks at.
def section(name, parts):
    start = 64 + 2 * 56
    write(name, phdr(PT_LOAD, 0, 1 << 17, 5) + phdr(PT_GNU_SFRAME, start, len(parts)), parts)


def part(fdes, rows):
    """A section of version 3, in which starts are relative to their own address"""
    nr = len(fdes) // 16
    return struct.pack("<HBBBbbBIIIII", 0xDEE2, 3, 0, 3, 0, -8, 0, nr, 0, len(rows), 0,
                       nr * 16) + fdes + rows


def fde(offset, size, row):
    """An FDE for the start of the code; it is at this offset of the section."""
    return struct.pack("<qII", -(64 + 2 * 56 + offset), size, row)


def functions(name, index, nr):
    section(name, part(bytes(16 * index) + fde(28 + 16 * index, 16, 0) +
                       bytes(16 * (nr - index - 1)), good))


good = struct.pack("<HBBBBB", 1, 0, 0, 0, 0, 0)
functions("functions-few", 1000, 1 << 17)
functions("functions", 1 << 16, 1 << 17)

# The last row of the first two functions starts where the row before it starts.
bad = struct.pack("<HBBB", 40000, 2, 0, 0)
bad += b"".join(struct.pack("<IB", min(i, 39998), 0) for i in range(40000))
section("rows", part(fde(28, 1 << 16, 0) + fde(44, 1 << 16, 0) + fde(60, 16, len(bad)),
                     bad + good))
empty = part(b"", b"") + bytes(4)
section("parts", empty * (1 << 16) + part(fde(len(empty) * (1 << 16) + 28, 16, 0), good))


# Needed files of a program: first as usual, then with too many or too large parts before all is
# known. The kernel runs no program whose interpreter's name is longer than a path.
def needs(name, number=1, strings=4096, interp=4096, sections=1):
    start = 64 + 2 * 56
    missing, found = b"\0missing.so\0libc.so.6\0", struct.pack("<QQ", 1, 12)
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    dynamic = struct.pack("<QQ", 1, 1) * (number - 1) + found + bytes(16)
    at = start + len(dynamic)
    shdrs = shdr(0, 0, 0, 0) + shdr(0, SHT_STRTAB, at, strings)
    for i in range(sections):
        shdrs += shdr(0, SHT_DYNAMIC, start if i == sections - 1 else start + len(dynamic) - 16,
                      len(dynamic) if i == sections - 1 else 16, 1)
    end = at + len(missing)
    write(name, code + phdr(PT_INTERP, end, interp), dynamic + missing + loader, shdrs,
          size=end + max(strings, interp))


needs("needs-little")
needs("needs-many", number=1 << 17)
needs("needs-strings", strings=(16 << 20) + 1)
needs("needs-interpreter", interp=4097)
needs("needs-more", sections=2)
