#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a change of the bandwidth changes the times of loop.py.

--before and --after are the numbers of finished iterations when the link was made slow and
when it was made fast again. The iteration during a change is ignored. A slow iteration
cannot be faster than the link: with 2 ranks, every algorithm of NCCL sends at least S
bytes in each direction for an all_reduce of S bytes.
"""

import argparse
import json
import statistics
import sys

EARLY = 0.05  # an iteration may be faster than the link by this share: some data was sent before the change
FACTOR = 2  # slow iterations must be slower by this factor; it is small because a shared GPU is slow too


def payload_rate(link):
    """Returns the payload bits per second of a link in the output of `ddlemu status --json`."""
    return link["bandwidth_bps"] * (link["mtu"] - link["header"]) / (link["mtu"] + link["framing"])


def phases(times, before, after):
    return times[1:before], times[before + 1:after], times[after + 1:]


def find_error(times, before, after, floor):
    fast, slow, again = phases(times, before, after)
    if not fast or not slow or not again:
        return "too few iterations: %d before, %d slow, %d after" % (len(fast), len(slow), len(again))
    f, s, a = statistics.median(fast), statistics.median(slow), statistics.median(again)
    if min(slow) < floor * (1 - EARLY):
        return "an iteration took %.1f ms, and the slow link needs %.1f ms" % (min(slow), floor)
    if s < FACTOR * f:
        return "iterations did not slow down: %.1f ms before, %.1f ms after" % (f, s)
    if s < FACTOR * a:
        return "iterations stayed slow: %.1f ms, then %.1f ms with the link fast again" % (s, a)
    return ""


def main():
    p = argparse.ArgumentParser(description="Check that iterations slowed down and recovered.")
    p.add_argument("--before", type=int, required=True)
    p.add_argument("--after", type=int, required=True)
    p.add_argument("--bytes", type=int, required=True)
    p.add_argument("--slow", required=True, help="output of `ddlemu shape --json` for the slow link")
    p.add_argument("file")
    o = p.parse_args()
    with open(o.file) as f:
        times = [float(line) for line in f if line.endswith("\n")]
    with open(o.slow) as f:
        links = json.load(f)["links"]
    floor = max(8000 * o.bytes / payload_rate(link) for link in links)
    text = find_error(times, o.before, o.after, floor)
    if text:
        print(text)
        return 1
    medians = [statistics.median(part) for part in phases(times, o.before, o.after)]
    print("%.1f ms, then %.1f ms (the link needs %.1f), then %.1f ms" % (medians[0], medians[1], floor, medians[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
