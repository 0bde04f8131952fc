// SPDX-License-Identifier: Apache-2.0

import type { Drawing, Line } from "./data";
import { svg } from "./dom";

// Label is what is written beside a line of a map.
export interface Label {
  hop: number;
  text: string;
  look: string; // class
  color: string; // of the mark before the text
}

const letter = 6.8; // width of a letter, at most, and
const high = 15; // height of a line of text

interface Box {
  x: number; // of the middle
  y: number;
  width: number;
  height: number;
}

const overlap = (a: Box, b: Box) => Math.abs(a.x - b.x) < (a.width + b.width) / 2 && Math.abs(a.y - b.y) < (a.height + b.height) / 2;

// placeLabels writes each label near the middle of its line, where it covers no node and no other label. A label without
// such a place is left out: the page says the same in its text.
export function placeLabels(fabric: Drawing, hops: Line[], labels: Label[]): SVGElement[] {
  const taken = boxes(fabric);
  const out: SVGElement[] = [];
  for (const l of labels) {
    const box = free(fabric, hops[l.hop], letter * l.text.length + 12, taken);
    if (box) {
      taken.push(box);
      const left = box.x - box.width / 2;
      out.push(svg("circle", { cx: left + 4, cy: box.y, r: 4, class: "mark", style: `fill:${l.color}` }), svg("text", { x: left + 12, y: box.y + 4, class: `label ${l.look}` }, l.text));
    }
  }
  return out;
}

// boxes are those of the nodes of a fabric.
function boxes(fabric: Drawing): Box[] {
  const [width, height] = fabric.switch_size.map((size) => size + 4);
  const nodes = fabric.vertices.filter((v) => v.switch || !fabric.racks).map((v) => ({ x: v.x, y: v.y, width: v.switch ? width : 26, height: v.switch ? height : 26 }));
  const racks = (fabric.racks ?? []).map((r) => ({ x: r.x + r.width / 2, y: r.y + r.height / 2, width: r.width, height: r.height }));
  return [...nodes, ...racks];
}

function free(fabric: Drawing, hop: Line, width: number, taken: Box[]): Box | undefined {
  if (hop.from < 0) {
    return undefined;
  }
  const a = fabric.vertices[hop.from];
  const b = fabric.vertices[hop.to];
  for (const t of [0.5, 0.35, 0.65, 0.25, 0.75]) {
    for (const side of [1, -1]) {
      // The label stands beside the line, not on it.
      const box = { x: a.x + t * (b.x - a.x) + side * (width / 2 + 10), y: a.y + t * (b.y - a.y), width, height: high };
      const inside = box.x - width / 2 > 2 && box.x + width / 2 < fabric.width - 2;
      if (inside && !taken.some((o) => overlap(o, box))) {
        return box;
      }
    }
  }
  return undefined;
}
