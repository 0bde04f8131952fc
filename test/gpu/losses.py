#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the losses and parameters of two runs of train.py, bit by bit.

With 2 ranks every element of a gradient is the sum of two numbers. a + b equals b + a bit
by bit, so NCCL's algorithm and transport do not matter, and there is no tolerance.
"""

import argparse
import json
import os
import sys


def read(folder, ranks):
    runs = []
    for rank in range(ranks):
        with open(os.path.join(folder, "rank%d.json" % rank)) as f:
            runs.append(json.load(f))
    return runs


def difference(a, b):
    """Returns the first difference of two runs, or ""."""
    for rank, (x, y) in enumerate(zip(a, b)):
        if not x["losses"] or len(x["losses"]) != len(y["losses"]):
            return "rank %d: %d and %d steps" % (rank, len(x["losses"]), len(y["losses"]))
        for step, (p, q) in enumerate(zip(x["losses"], y["losses"])):
            if p != q:
                return "rank %d, step %d: the loss is %s emulated, %s without" % (
                    rank, step, float.fromhex(p), float.fromhex(q))
        if x["parameters"] != y["parameters"]:
            return "rank %d: the losses are equal, but not the parameters" % rank
    if len({run["parameters"] for run in a}) != 1:
        return "the ranks' parameters differ"
    return ""


def main():
    p = argparse.ArgumentParser(description="Compare two runs of train.py.")
    p.add_argument("--ranks", type=int, required=True)
    p.add_argument("emulated")
    p.add_argument("reference")
    options = p.parse_args()
    try:
        a, b = read(options.emulated, options.ranks), read(options.reference, options.ranks)
    except (OSError, ValueError) as e:
        print("read the losses: %s" % e)
        return 1
    text = difference(a, b)
    if text:
        print(text)
        return 1
    print("%d losses on %d ranks and the parameters are equal bit by bit" % (len(a[0]["losses"]), len(a)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
