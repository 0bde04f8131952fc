#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats an all_reduce until it is stopped, and writes the time of each.

Rank 0 adds a line with the milliseconds of each iteration to --times. The loop ends when
the file --stop exists, or after --limit seconds.
"""

import os
import time

import torch
import torch.distributed as dist

import ranks


def main():
    p = ranks.parser(__doc__)
    p.add_argument("--bytes", type=int, default=4 << 20)
    p.add_argument("--times", required=True)
    p.add_argument("--stop", required=True)
    p.add_argument("--limit", type=float, default=90)
    options = p.parse_args()
    r = ranks.Rank(options)
    r.join()
    count = options.bytes // 4
    x = torch.empty(count, device=r.device)
    want = float(r.world * (r.world + 1) // 2)
    end = time.monotonic() + options.limit
    with open(options.times, "w") as times:
        while True:
            x.fill_(r.rank + 1)
            # Rank 0 decides whether to stop. The last element tells the other ranks.
            x[-1] = 0
            if r.rank == 0 and (os.path.exists(options.stop) or time.monotonic() > end):
                x[-1] = 1
            r.synchronize()
            r.meet()  # otherwise a faster peer sends before the measurement starts
            start = time.perf_counter()
            dist.all_reduce(x)
            r.synchronize()
            took = time.perf_counter() - start
            stop = x[-1].item() > 0
            r.check("all_reduce", x[:-1], torch.full((count - 1,), want))
            if r.rank == 0:
                times.write("%.4f\n" % (1000 * took))
                times.flush()
            if stop:
                break
    r.leave()


if __name__ == "__main__":
    main()
