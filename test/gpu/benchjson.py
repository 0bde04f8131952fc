#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the output of `ddlemu bench --json`: it ran on a GPU, no element is wrong, and the verdict is right."""

import argparse
import json
import sys

import verdict


def find_error(d, cuda):
    """Returns what is wrong with the rows, or ""."""
    header, rows = d.get("header") or {}, d.get("rows") or []
    if header.get("cuda") != cuda:
        return "it ran on CUDA %r, not %r" % (header.get("cuda"), cuda)
    if not rows:
        return "there are no rows"
    for row in rows:
        place = "in place" if row.get("inplace") else "out of place"
        if row.get("wrong") is None:
            return "%d bytes %s: the values were not checked" % (row["size"], place)
        if row["wrong"] != 0:
            return "%d bytes %s: %d wrong elements" % (row["size"], place, row["wrong"])
        if not row.get("time_us", 0) > 0:
            return "%d bytes %s: no time" % (row["size"], place)
    return ""


def describe(row):
    text = "%d B in %.0f us" % (row["size"], row["time_us"])
    if row.get("expected_us") is not None:
        text += " (model %.0f)" % row["expected_us"]
    return text


def main():
    p = argparse.ArgumentParser(description="Check the JSON of ddlemu bench.")
    p.add_argument("--cuda", default="gpu")
    verdict.add_flags(p)
    p.add_argument("file")
    o = p.parse_args()
    try:
        with open(o.file) as f:
            d = json.load(f)
    except (OSError, ValueError) as e:
        print("read the JSON: %s" % e)
        return 1
    word, reasons = d.get("verdict", ""), list(d.get("reasons") or [])
    text = find_error(d, o.cuda) or verdict.find_error(word, reasons, o.ranks, o.gpus, o.mps == "yes")
    if text:
        print(text)
        return 1
    rows = [row for row in d["rows"] if not row["inplace"]]
    print("NCCL %s, scale %g, %d rows with 0 wrong: %s; verdict %s" % (
        d["header"]["nccl"], d["header"]["time_scale"], len(d["rows"]), ", ".join(describe(row) for row in rows),
        verdict.brief(word, reasons)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
