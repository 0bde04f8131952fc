// SPDX-License-Identifier: Apache-2.0

import * as colors from "./colors";
import type { Data, Func, Pair, SizeClass } from "./data";
import { el, section, svg } from "./dom";
import * as format from "./format";
import { rankName } from "./names";

const leastNamed = 16; // px from the name of a rank to the next

// trafficSection shows who sent how much to whom, and the sizes of messages, of one function or of all (-1).
export function trafficSection(data: Data): { element: HTMLElement; filter: (f: number) => void } {
  const matrix = el("div", { class: "scroll", id: "matrix" });
  const sizes = el("div", { id: "sizes" });
  const show = (f: number) => {
    const functions = f < 0 ? data.functions : [data.functions[f]];
    matrix.replaceChildren(drawMatrix(data, pairs(functions)));
    sizes.replaceChildren(drawSizes(classes(functions)));
  };
  const element = section(
    "traffic", "Who sent to whom", "Rows send, columns receive. Only what crossed the network is here: ranks of one node use shared memory.",
    el("div", { class: "columns" }, matrix, el("div", {}, el("h3", {}, "Sizes of messages"), sizes)),
  );
  show(-1);
  return { element, filter: show };
}

function pairs(functions: Func[]): Pair[] {
  const all = new Map<string, Pair>();
  for (const p of functions.flatMap((f) => f.traffic)) {
    const key = `${p.from} ${p.to}`;
    const sum = all.get(key) ?? { ...p, messages: 0, bytes: 0 };
    all.set(key, { ...sum, messages: sum.messages + p.messages, bytes: sum.bytes + p.bytes });
  }
  return [...all.values()];
}

function classes(functions: Func[]): SizeClass[] {
  const all = new Map<number, SizeClass>();
  for (const c of functions.flatMap((f) => f.sizes)) {
    const sum = all.get(c.most) ?? { most: c.most, messages: 0, bytes: 0 };
    all.set(c.most, { most: c.most, messages: sum.messages + c.messages, bytes: sum.bytes + c.bytes });
  }
  return [...all.values()].sort((a, b) => a.most - b.most);
}

function drawMatrix(data: Data, all: Pair[]): SVGSVGElement {
  const n = data.ranks.length;
  const cell = Math.max(6, Math.min(40, 480 / Math.max(n, 1)));
  const margin = 34;
  const every = [1, 2, 4, 8, 16, 32].find((k) => k * cell >= leastNamed * String(n).length / 2) ?? 64;
  const most = Math.max(1, ...all.map((p) => p.bytes));
  const side = margin + n * cell;
  const out = svg("svg", { viewBox: `0 0 ${side} ${side}`, width: side, height: side, role: "img", "aria-label": "traffic matrix" });
  data.ranks.forEach((r, i) => {
    if (i % every === 0) {
      out.append(svg("text", { x: margin - 6, y: margin + (i + 0.5) * cell + 4, class: "end" }, String(r.rank)));
      out.append(svg("text", { x: margin + (i + 0.5) * cell, y: margin - 8 }, String(r.rank)));
    }
  });
  out.append(svg("rect", { x: margin, y: margin, width: n * cell, height: n * cell, class: "empty" }));
  for (const p of all) {
    const text = `${rankName(data, p.from)} to ${rankName(data, p.to)}: ${format.bytes(p.bytes)} in ${format.count(p.messages, "message")}`;
    out.append(
      svg(
        "rect", { x: margin + p.to * cell, y: margin + p.from * cell, width: cell - 1, height: cell - 1, fill: colors.load(p.bytes / most), class: "cell" },
        svg("title", {}, text),
      ),
    );
  }
  return out;
}

function drawSizes(all: SizeClass[]): HTMLElement {
  const most = Math.max(1, ...all.map((c) => c.messages));
  return el(
    "div", {},
    ...all.map((c) =>
      el(
        "div", { class: "line" }, el("span", { class: "name" }, `up to ${format.bytes(c.most)}`),
        el("div", { class: "track" }, el("div", { class: "bar", style: `width:${(100 * c.messages) / most}%` }, el("span", { style: "width:100%;background:#1e88e5", title: format.bytes(c.bytes) }))),
        el("span", { class: "figure" }, c.messages.toLocaleString("en")),
      ),
    ),
  );
}
