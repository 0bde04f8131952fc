// SPDX-License-Identifier: Apache-2.0

import type { State } from "./live-data";

const kept = 181; // looks

// Rates is what a hop did between two looks, over the time of the emulated network.
export interface Rates {
  busy: number; // share of the time
  bps: number; // payload
}

interface Look {
  at: number; // s, of the browser
  now: number;
  busy: number[];
  bytes: number[];
}

// History has the counters of the last looks at one fabric.
export class History {
  private looks: Look[] = [];

  add(s: State, at: number): void {
    this.looks.push({ at, now: s.now_ns, busy: s.hops.map((h) => h.busy_ns), bytes: s.hops.map((h) => h.bytes) });
    this.looks.splice(0, this.looks.length - kept);
  }

  // regroup takes the places of hops in a new list: places has where each was in the old one, -1 for one that was not
  // there. A hop is not listed only as long as it has carried nothing.
  regroup(places: number[]): void {
    const move = (counters: number[]) => places.map((p) => (p < 0 ? 0 : counters[p]));
    this.looks = this.looks.map((l) => ({ ...l, busy: move(l.busy), bytes: move(l.bytes) }));
  }

  // latest is what a hop did between the last two looks.
  latest(hop: number): Rates {
    return this.between(this.looks.length - 1, hop);
  }

  // series is what a hop did before each look: seconds before the last one, and rates.
  series(hop: number): { ago: number[]; rates: Rates[] } {
    const last = this.looks[this.looks.length - 1]?.at ?? 0;
    const later = this.looks.slice(1);
    return { ago: later.map((l) => l.at - last), rates: later.map((_, i) => this.between(i + 1, hop)) };
  }

  // between is 0 if the clock stood still, as a virtual one does while no job runs.
  private between(look: number, hop: number): Rates {
    const b = this.looks[look];
    const a = this.looks[look - 1];
    const time = a && b ? b.now - a.now : 0;
    if (time <= 0) {
      return { busy: 0, bps: 0 };
    }
    // The time for which a segment occupies a hop is counted when it is reserved, which may be before this look.
    return { busy: Math.min(1, (b.busy[hop] - a.busy[hop]) / time), bps: (8e9 * (b.bytes[hop] - a.bytes[hop])) / time };
  }
}
