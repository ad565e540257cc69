#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""spoil.py FROM TO HOW...: copy a file, usually with a section of version 3, and damage it

Each HOW is the name of a function below.
"""
import struct
import sys

PT_NULL, PT_LOAD, PT_GNU_SFRAME, SHF_WRITE = 0, 1, 0x6474E554, 1


class File:
    """A file, the headers of its section, and the offsets of FDEs and rows"""

    def __init__(self, name):
        with open(name, "rb") as file:
            self.bytes = bytearray(file.read())

    def find(self):
        phoff, shoff = self.get("QQ", 32)
        phnum, _, shnum, _ = self.get("HHHH", 56)
        self.phdr = next(at for at in range(phoff, phoff + 56 * phnum, 56)
                         if self.get("I", at)[0] == PT_GNU_SFRAME)
        self.section, addr = self.get("QQ", self.phdr + 8)
        self.shdr = next(at for at in range(shoff, shoff + 64 * shnum, 64)
                         if self.get("QQ", at + 16) == (addr, self.section))
        version, self.nr, fdes, rows = self.get("2xB5xI8xII", self.section)
        assert version == 3
        self.fdes = self.section + 28 + fdes
        self.rows = self.section + 28 + rows

    def get(self, kind, at):
        return struct.unpack_from("<" + kind, self.bytes, at)

    def put(self, kind, at, *values):
        struct.pack_into("<" + kind, self.bytes, at, *values)

    def functions(self):
        """Yield the offsets of each function's FDE, attributes and rows"""
        for fde in range(self.fdes, self.fdes + 16 * self.nr, 16):
            attr = self.rows + self.get("I", fde + 12)[0]
            yield fde, attr, attr + 5


def size(file):
    for fde, _, _ in file.functions():
        file.put("I", fde + 8, 0)


def text(file):
    for fde, _, _ in file.functions():
        file.put("q", fde, file.get("q", fde)[0] + (1 << 40))


def offset(file):
    for fde, _, _ in list(file.functions()):
        file.put("I", fde + 12, 0xFFFFFFFF)


def limit(file):
    """The first row of each function is past the function's end."""
    for fde, attr, row in file.functions():
        assert file.get("HB", attr)[1] & 0xF == 0
        file.put("I", fde + 8, 1)
        file.put("B", row, 0xFF)


def order(file):
    """The second row of each function starts where the first one does."""
    for fde, attr, row in file.functions():
        nr, info = file.get("HB", attr)
        assert info & 0xF == 0
        if nr < 2:
            file.put("I", fde + 8, 0)
            continue
        kind = file.get("B", row + 1)[0]
        file.put("B", row + 2 + ((kind >> 1 & 0xF) << (kind >> 5 & 3)), file.get("B", row)[0])


def silent(file):
    """Signal frames without rows: the kernel walks these in another way."""
    for _, attr, _ in file.functions():
        file.put("HB", attr, 0, 0x80)


def phdr_offset(file):
    file.put("Q", file.phdr + 8, 1 << 40)


def phdr_size(file):
    file.put("Q", file.phdr + 32, 1 << 40)


def no_phdr(file):
    file.put("I", file.phdr, PT_NULL)


def empty_phdr(file):
    file.put("Q", file.phdr + 32, 0)


def shdr_offset(file):
    file.put("Q", file.shdr + 24, 1 << 40)


def shdr_size(file):
    file.put("Q", file.shdr + 32, 1 << 40)


def shdr_flags(file):
    file.put("Q", file.shdr + 8, file.get("Q", file.shdr + 8)[0] | SHF_WRITE)


def nameless(file):
    """Only the program header identifies the section."""
    file.put("I", file.shdr, 0)
    file.put("I", file.shdr + 4, 1)


def odd_code(file):
    """The code's offset does not fit its address, so it cannot be mapped."""
    for at in range(file.get("Q", 32)[0], file.phdr, 56):
        if file.get("II", at) == (PT_LOAD, 5):
            file.put("Q", at + 8, file.get("Q", at + 8)[0] + 16)


def many_phdrs(file):
    """More headers than the file has: the bytes after them are taken for headers."""
    file.put("H", 56, 200)


def no_shdrs(file):
    """The first header should have their number, but is empty. The file has room for many."""
    file.put("HHH", 58, 64, 0, 0)
    file.bytes += bytes(70000 * 64)


def many_sections(file):
    """The first header has their number."""
    no_shdrs(file)
    file.put("Q", file.get("Q", 40)[0] + 32, 70000)


def many_shdrs(file):
    """The section's header comes after as many headers as the kernel looks at."""
    header = bytes(file.bytes[file.shdr:file.shdr + 64])
    shnum = file.get("H", 60)[0]
    shoff = file.get("Q", 40)[0]
    table = bytes(file.bytes[shoff:shoff + 64 * shnum])
    file.put("I", file.shdr + 4, 0)
    file.put("Q", 40, len(file.bytes))
    file.put("H", 60, shnum + 1024)
    file.bytes += table.replace(header, bytes(64)) + bytes(64 * 1023) + header


def main():
    file = File(sys.argv[1])
    if not set(sys.argv[3:]) & {"many_phdrs", "no_shdrs", "many_sections"}:
        file.find()
    for how in sys.argv[3:]:
        globals()[how](file)
    with open(sys.argv[2], "wb") as out:
        out.write(file.bytes)


main()
