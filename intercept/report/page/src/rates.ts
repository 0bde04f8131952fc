// SPDX-License-Identifier: Apache-2.0

import type { Hop } from "./data";
import * as format from "./format";

// rates are the rates that a hop had, each with the time from which on it had it.
export function rates(hop: Hop): string {
  let last = hop.bandwidth_bps;
  const later = (hop.changes ?? []).filter((c) => {
    const other = c.bandwidth_bps !== last;
    last = c.bandwidth_bps;
    return other;
  });
  return [format.rate(hop.bandwidth_bps), ...later.map((c) => `${format.rate(c.bandwidth_bps)} from ${format.time(c.time_ns)}`)].join(", ");
}
