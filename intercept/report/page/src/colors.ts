// SPDX-License-Identifier: Apache-2.0

// Colours that can be told apart on a light and on a dark page.

const stops: [number, number, number][] = [
  [120, 144, 156],
  [66, 165, 245],
  [38, 198, 138],
  [255, 202, 40],
  [251, 110, 30],
  [211, 30, 50],
];

// load is the colour of a share of 0 to 1.
export function load(share: number): string {
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const mix = stops[i].map((c, k) => Math.round(c + (at - i) * (stops[i + 1][k] - c)));
  return `rgb(${mix.join(",")})`;
}

const causes: Record<string, string> = {
  "not ready": "#8d6e63",
  "late call": "#bcaaa4",
  busy: "#5c6bc0",
  receive: "#ab47bc",
  serializing: "#26a69a",
  queueing: "#ef6c00",
  paused: "#f9a825",
  "link down": "#212121",
  propagation: "#42a5f5",
  recovery: "#d32f2f",
  window: "#ec407a",
  host: "#9e9d24",
  stalled: "#78909c",
  emulator: "#b0bec5",
  "not recorded": "#e0e0e0",
};

// cause is the colour of a kind of cause.
export const cause = (kind: string): string => causes[kind] ?? "#9e9e9e";

// functions tell lines and dots of several functions or jobs apart.
const distinct = ["#1e88e5", "#e53935", "#43a047", "#fb8c00", "#8e24aa", "#00897b", "#6d4c41", "#c0ca33"];
export const nth = (i: number): string => distinct[i % distinct.length];
