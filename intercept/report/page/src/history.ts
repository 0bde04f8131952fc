// SPDX-License-Identifier: Apache-2.0

import type { State } from "./live-data";

// Rates is what a hop did between two looks, over the time of the emulated network.
export interface Rates {
  busy: number; // share of the time
  bps: number; // payload
}

interface Look {
  now: number;
  busy: number[];
  bytes: number[];
}

// History has the counters of the last two looks at one fabric. The server has those before.
export class History {
  private before?: Look;
  private last?: Look;

  add(s: State): void {
    this.before = this.last;
    this.last = { now: s.clock_ns, busy: s.hops.map((h) => h.busy_ns), bytes: s.hops.map((h) => h.bytes) };
  }

  // regroup takes the places of hops in a new list: places has where each was in the old one, -1 for one that was not
  // there. A hop is not listed only as long as it has carried nothing.
  regroup(places: number[]): void {
    const move = (counters: number[]) => places.map((p) => (p < 0 ? 0 : counters[p]));
    if (this.last) {
      this.last = { ...this.last, busy: move(this.last.busy), bytes: move(this.last.bytes) };
    }
  }

  // latest is what a hop did between the last two looks. It is 0 if the clock stood still, as a virtual one does while
  // no job runs.
  latest(hop: number): Rates {
    const [a, b] = [this.before, this.last];
    const time = a && b ? b.now - a.now : 0;
    if (!a || !b || time <= 0) {
      return { busy: 0, bps: 0 };
    }
    // The time for which a segment occupies a hop is counted when it is reserved, which may be before this look.
    return { busy: Math.min(1, (b.busy[hop] - a.busy[hop]) / time), bps: (8e9 * (b.bytes[hop] - a.bytes[hop])) / time };
  }
}
