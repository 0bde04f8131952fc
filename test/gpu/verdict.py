#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks ddlemu's verdict.

INVALID is correct if the host is too slow. It is an error if there is no verdict, if traffic
was not emulated, or if the verdict is VALID although several processes share a GPU without
MPS: then they are time-sliced, and timing has no meaning.
"""

import argparse
import json
import sys

# Texts of reasons other than a slow host.
BAD = ("NOT emulated", "nothing was emulated", "not emulated", "went around", "NCCL_HOSTID", "died", "wrong elements",
       "connections went over", "could not be reserved", "LL128")
SHARED = "share one GPU"


def from_json(text):
    """Returns the verdict and its reasons from the JSON of `status --last` or `bench`."""
    d = json.loads(text)
    return d.get("verdict", ""), list(d.get("reasons") or [])


def from_text(text):
    """Returns them from the output of `ddlemu run`: a line per reason, then the verdict."""
    word, reasons = "", []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("verdict: "):
            word, reasons = line[len("verdict: "):].strip(), []
            for before in reversed(lines[:i]):
                if not before.startswith("ddlemu: "):
                    break
                reasons.insert(0, before[len("ddlemu: "):])
    return word, reasons


def find_error(word, reasons, ranks, gpus, mps):
    """Returns what is wrong with a verdict, or ""."""
    if word not in ("VALID", "INVALID"):
        return "ddlemu gave no verdict"
    if word == "INVALID" and not reasons:
        return "INVALID without a reason"
    for reason in reasons:
        if any(bad in reason for bad in BAD):
            return "INVALID for a reason that must not be: " + reason
    if ranks > gpus and not mps:
        if word == "VALID":
            return "VALID, although %d ranks share %d GPU(s) without MPS" % (ranks, gpus)
        if not any(SHARED in reason for reason in reasons):
            return "INVALID, but no reason says that %d ranks share %d GPU(s): %s" % (ranks, gpus, brief(word, reasons))
    return ""


def brief(word, reasons):
    """Returns the verdict in one line, with the most important reason and the number of others."""
    if not reasons:
        return word
    first = next((reason for reason in reasons if SHARED in reason), reasons[0])
    more = " (and %d more)" % (len(reasons) - 1) if len(reasons) > 1 else ""
    return "%s: %s%s" % (word, first, more)


def add_flags(p):
    p.add_argument("--ranks", type=int, default=0, help="ranks of the job; if they are more than --gpus, a reason must say so")
    p.add_argument("--gpus", type=int, default=0)
    p.add_argument("--mps", choices=("yes", "no"), default="no")


def main():
    p = argparse.ArgumentParser(description="Check ddlemu's verdict.")
    p.add_argument("--format", choices=("json", "text"), required=True)
    add_flags(p)
    p.add_argument("file")
    o = p.parse_args()
    try:
        with open(o.file, errors="replace") as f:
            word, reasons = (from_json if o.format == "json" else from_text)(f.read())
    except (OSError, ValueError) as e:
        print("read the verdict: %s" % e)
        return 1
    text = find_error(word, reasons, o.ranks, o.gpus, o.mps == "yes")
    print(text or "verdict " + brief(word, reasons))
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
