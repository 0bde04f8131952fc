#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads ddlemu's verdict and says whether it is what this machine must give.

A verdict of INVALID because this host is too slow is honest, and so right. What is not:
no verdict; traffic that was not emulated; and VALID although several processes share a
GPU without MPS, where they are time-sliced and no timing means anything.
"""

import argparse
import json
import sys

# Of the reasons that say more than that this host is slow.
BAD = ("NOT emulated", "nothing was emulated", "not emulated", "went around", "NCCL_HOSTID", "died", "wrong elements",
       "connections went over", "could not be reserved", "LL128")
SHARED = "share one GPU"


def from_json(text):
    """Returns the word and the reasons of a JSON document, of status --last or bench."""
    d = json.loads(text)
    return d.get("verdict", ""), list(d.get("reasons") or [])


def from_text(text):
    """Returns them from what `ddlemu run` prints: a line per reason, then the verdict."""
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


def wrong(word, reasons, ranks, gpus, mps):
    """Says what is wrong with a verdict, "" if nothing is."""
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
    """The verdict in one line: the reason that matters first, and how many there are besides."""
    if not reasons:
        return word
    first = next((reason for reason in reasons if SHARED in reason), reasons[0])
    more = " (and %d more)" % (len(reasons) - 1) if len(reasons) > 1 else ""
    return "%s: %s%s" % (word, first, more)


def add_flags(p):
    p.add_argument("--ranks", type=int, default=0, help="ranks of the job; with --gpus, sharing must be told of")
    p.add_argument("--gpus", type=int, default=0)
    p.add_argument("--mps", choices=("yes", "no"), default="no")


def main():
    p = argparse.ArgumentParser(description="Judge ddlemu's verdict.")
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
    text = wrong(word, reasons, o.ranks, o.gpus, o.mps == "yes")
    print(text or "verdict " + brief(word, reasons))
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
