// SPDX-License-Identifier: Apache-2.0

// Colours that can be told apart on a light and on a dark page. Red is kept for links that are down and for what is
// wrong, strong colours for single links, pale ones for causes that are about no link.

import type { Cause, Data } from "./data";

const stops: [number, number, number][] = [
  [144, 160, 170],
  [79, 179, 246],
  [38, 150, 243],
  [92, 107, 220],
  [149, 72, 238],
  [214, 50, 200],
];

// load is the colour of a share of 0 to 1, from grey over blue to purple.
export function load(share: number): string {
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const mix = stops[i].map((c, k) => Math.round(c + (at - i) * (stops[i + 1][k] - c)));
  return `rgb(${mix.join(",")})`;
}

export const down = "#e53935";

const causes: Record<string, string> = {
  "not ready": "#a1887f",
  "late call": "#d7ccc8",
  busy: "#9fa8da",
  receive: "#ce93d8",
  "link down": down,
  propagation: "#90caf9",
  window: "#f48fb1",
  host: "#c5ca6d",
  stalled: "#90a4ae",
  emulator: "#b0bec5",
  "not recorded": "#cfd8dc",
};
const otherLink = "#8d9aa2"; // links that have no colour of their own
const links = ["#ef6c00", "#00897b", "#8d6e00", "#5e7fd6", "#7cb342", "#8e5a3c", "#00a6c0", "#b2559b"];

// functions tell dots of several functions apart.
const distinct = ["#1e88e5", "#fb8c00", "#43a047", "#8e24aa", "#00897b", "#6d4c41", "#c0ca33"];
export const nth = (i: number): string => distinct[i % distinct.length];

// Palette has one colour for each link and for each kind of cause, the same in all pictures of a page.
export class Palette {
  private readonly links = new Map<string, string>();

  // The links that took most of the time have colours of their own.
  constructor(private readonly data: Data) {
    const sums = new Map<string, number>();
    for (const p of data.functions.flatMap((f) => f.parts)) {
      const name = data.causes[p.cause].link;
      if (name) {
        sums.set(name, (sums.get(name) ?? 0) + p.time_ns);
      }
    }
    [...sums].sort((a, b) => b[1] - a[1]).slice(0, links.length).forEach(([name], i) => this.links.set(name, links[i]));
  }

  link(name: string): string {
    return this.links.get(name) ?? otherLink;
  }

  // cause is the background for a cause: that of its link, or of its kind.
  cause(place: number): string {
    const { kind, link } = this.data.causes[place];
    return link && kind !== "link down" ? pattern(kind, this.link(link)) : (causes[kind] ?? "#9e9e9e");
  }
}

// pattern is the colour of a link, with stripes if its time was not queueing.
function pattern(kind: Cause["kind"], color: string): string {
  if (kind === "queueing") {
    return color;
  }
  const turn = kind === "serializing" ? 135 : kind === "window" ? 90 : 45;
  return `repeating-linear-gradient(${turn}deg, ${color} 0 3px, ${color}66 3px 6px)`;
}
