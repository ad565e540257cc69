#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read the contents of perf.data files without perf.

    perfdata.py FILE...		one line of name=value counts for each file

Reads plain perf.data files in little-endian byte order, no pipes and no compressed
data. Record 22 and the marker belong to deferred user callchains, see
Documentation/core-api/unwind-deferred.rst.
"""

import os
import struct
import sys

RECORD_LOST = 2
RECORD_SAMPLE = 9
RECORD_LOST_SAMPLES = 13
RECORD_DEFERRED = 22

MISC_CPUMODE = 7
MISC_KERNEL = 1
MISC_USER = 2
MISC_LOST_BPF = 1 << 15

CONTEXT_KERNEL = 2**64 - 128
CONTEXT_USER = 2**64 - 512
CONTEXT_DEFERRED = 2**64 - 640
CONTEXT_MAX = 2**64 - 4095

# Bits of sample_type, in ascending order.
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM, RAW, BRANCH, \
    REGS, STACK = (1 << bit for bit in range(14))
IDENTIFIER = 1 << 16
BEFORE_CHAIN = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM, CPU, PERIOD)


class Attr:
    """The fields of an event's attr that define the layout of its samples."""

    def __init__(self, raw):
        self.sample_type, self.read_format = struct.unpack_from("<QQ", raw, 24)
        self.flags, = struct.unpack_from("<Q", raw, 40)
        self.regs, = struct.unpack_from("<Q", raw, 80)
        self.defer_callchain = bool(self.flags >> 38 & 1)
        self.defer_output = bool(self.flags >> 39 & 1)
        self.chain_at = 8 * sum(bool(self.sample_type & bit) for bit in BEFORE_CHAIN)


class Sample:
    """The callchain of one sample, and where it was taken."""

    def __init__(self, misc, body, attr):
        self.in_kernel = misc & MISC_CPUMODE == MISC_KERNEL
        self.kernel = self.user = 0
        self.cookie = None
        self.stack = False
        # Check this first: READ precedes the callchain.
        if attr.sample_type & (READ | RAW | BRANCH):
            raise ValueError("samples with fields that this reader does not know")
        at = attr.chain_at
        if attr.sample_type & CALLCHAIN:
            at = self._chain(body, at)
        if attr.sample_type & REGS:
            abi, = struct.unpack_from("<Q", body, at)
            at += 8 + (8 * bin(attr.regs).count("1") if abi else 0)
        if attr.sample_type & STACK:
            size, = struct.unpack_from("<Q", body, at)
            if size:
                used, = struct.unpack_from("<Q", body, at + 8 + size)
                self.stack = used > 0

    def _chain(self, body, at):
        nr, = struct.unpack_from("<Q", body, at)
        context = None
        for ip in struct.unpack_from(f"<{nr}Q", body, at + 8):
            if ip >= CONTEXT_MAX:
                context = ip
            elif context == CONTEXT_DEFERRED:
                self.cookie = ip
            elif context == CONTEXT_KERNEL:
                self.kernel += 1
            elif context == CONTEXT_USER:
                self.user += 1
        return at + 8 + 8 * nr


class PerfData:
    """Samples, records of deferred callchains and losses of one file."""

    def __init__(self, path):
        self.bytes = os.path.getsize(path)
        self.samples = []
        self.records = {}
        self.nr_records = self.nr_empty = 0
        self.lost_samples = self.lost_records = 0
        with open(path, "rb") as file:
            data = file.read()
        if data[:8] != b"PERFILE2" or len(data) < 104:
            raise ValueError(f"{path} is not a perf.data file")
        _, attr_size, at, size, data_at, data_size = struct.unpack_from("<6Q", data, 8)
        if not data_size:
            raise ValueError(f"{path} is incomplete: the recording was cut off")
        self.attrs = [Attr(data[i:i + attr_size]) for i in range(at, at + size, attr_size)]
        attrs = [a for a in self.attrs if a.sample_type & (CALLCHAIN | REGS)]
        kinds = {(a.sample_type, a.regs) for a in attrs}
        if len(kinds) != 1:
            raise ValueError(f"{path}: {len(kinds)} kinds of samples, not one")
        self.attr = attrs[0]
        self._read(data, data_at, data_at + data_size)

    def _read(self, data, at, end):
        while at + 8 <= end:
            kind, misc, size = struct.unpack_from("<IHH", data, at)
            if size < 8 or at + size > end:
                raise ValueError(f"a record at offset {at} has size {size}")
            self._record(kind, misc, data[at + 8:at + size])
            at += size

    def _record(self, kind, misc, body):
        if kind == RECORD_SAMPLE:
            self.samples.append(Sample(misc, body, self.attr))
        elif kind == RECORD_DEFERRED:
            cookie, nr = struct.unpack_from("<QQ", body)
            self.nr_records += 1
            self.nr_empty += not nr
            self.records[cookie] = max(nr, self.records.get(cookie, 0))
        elif kind == RECORD_LOST:
            self.lost_records += struct.unpack_from("<Q", body, 8)[0]
        elif kind == RECORD_LOST_SAMPLES and not misc & MISC_LOST_BPF:
            self.lost_samples += struct.unpack_from("<Q", body)[0]

    @property
    def cookies(self):
        """The distinct cookies of the samples, one per kernel entry."""
        return {s.cookie for s in self.samples if s.cookie is not None}

    @property
    def matched(self):
        """The cookies that have a record."""
        return self.cookies & self.records.keys()

    @property
    def merged(self):
        """The samples that get user frames from a record."""
        return [s for s in self.samples if self.records.get(s.cookie)]

    @property
    def kernel_samples(self):
        """The samples that hit the kernel."""
        return [s for s in self.samples if s.in_kernel]

    @property
    def both(self):
        """Kernel samples with kernel and user frames, or with a stack copy for the latter."""
        return [s for s in self.kernel_samples
                if s.kernel and (s.user or s.stack or self.records.get(s.cookie))]


def main(paths):
    """Print the counts of each file."""
    for path in paths:
        data = PerfData(path)
        print(f"samples={len(data.samples)}",
              f"deferred={sum(s.cookie is not None for s in data.samples)}",
              f"merged={len(data.merged)} cookies={len(data.cookies)}",
              f"matched={len(data.matched)} records={data.nr_records}",
              f"empty={data.nr_empty} kernel={len(data.kernel_samples)}",
              f"both={len(data.both)} lost={data.lost_samples}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, struct.error) as error:
        sys.exit(f"perfdata: {error}")
