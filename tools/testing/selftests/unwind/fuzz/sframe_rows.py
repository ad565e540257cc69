#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare what "sframe rows FILE" printed with what "readelf --sframe FILE" did.

    sframe_rows.py ROWS|- DUMP

ROWS has a line for each address of code that the decoder has a frame for. A row of the
dump is about all addresses up to the next one, or up to the end of its function, or
about such addresses in each block of the function (STARTPC[m]). No other address may
have a frame. Status 1 if something differs, or if there is nothing to compare.
"""
import re
import sys

# A dump does not have the size of blocks. Only PLTs have blocks.
BLOCK = 16
SHOW = 10

FUNC = re.compile(r"func idx \[\d+\]: pc = 0x([0-9a-f]+), size = (\d+) bytes"
                  r"(?:, attr = \"(\w*)\")?")
ROW = re.compile(r"([0-9a-f]{16})\s+(\S.*)")


def frame(text, flex=False):
    """The frame of a line, in one notation: CFA, FP, RA; signal frame."""
    if text.startswith("RA undefined"):
        return ("outermost",)
    cfa, fp, ra, *rest = text.split()
    # All of these stand for a return address in its fixed place.
    if ra in ("f", "u", "U"):
        ra = "f"
    # Flexible rows use brackets for values in memory relative to the CFA.
    if flex:
        fp, ra = (re.sub(r"^\((c.*)\)$", r"\1", re.sub(r"^c", "=c", v)) for v in (fp, ra))
    return (cfa, fp if fp != "U" else "u", ra, "signal" in rest)


def read_dump(lines):
    """[(start, size, blocks, signal, [(offset, frame)])], in the order of the dump."""
    funcs = []
    for line in lines:
        match = FUNC.search(line)
        if match:
            attr = match[3] or ""
            funcs.append({"start": int(match[1], 16), "size": int(match[2]), "block": 0,
                          "flex": "F" in attr, "signal": "S" in attr, "rows": []})
            continue
        if "STARTPC[m]" in line:
            funcs[-1]["block"] = BLOCK
        match = ROW.match(line.strip())
        if match and funcs:
            func = funcs[-1]
            says = frame(match[2], func["flex"])
            if func["signal"] and len(says) > 1:
                says = says[:-1] + (True,)
            start = int(match[1], 16) - (0 if func["block"] else func["start"])
            func["rows"].append((start, says))
    return funcs


def expand(funcs):
    """The frame of each address of each function."""
    frames = {}
    for func in funcs:
        for offset in range(func["size"]):
            place = offset % func["block"] if func["block"] else offset
            says = None
            for start, row in func["rows"]:
                if start <= place:
                    says = row
            frames[func["start"] + offset] = says
    return frames


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with sys.stdin if sys.argv[1] == "-" else open(sys.argv[1], encoding="ascii") as rows:
        got = {int(line.split()[0], 16): frame(line.split(None, 1)[1]) for line in rows}
    with open(sys.argv[2], encoding="ascii") as dump:
        funcs = read_dump(dump)
    want = expand(funcs)

    wrong = [addr for addr in sorted(want.keys() | got.keys())
             if want.get(addr) != got.get(addr)]
    for addr in wrong[:SHOW]:
        print(f"{addr:#x}: {got.get(addr)}, and not {want.get(addr)}")
    print(f"{len(funcs)} functions, {sum(len(func['rows']) for func in funcs)} rows,"
          f" {len(want)} addresses, {len(wrong)} of them differ")
    if wrong or not want or not all(func["rows"] for func in funcs):
        sys.exit(1)


if __name__ == "__main__":
    main()
