// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import * as colors from "./colors";
import type { Data } from "./data";
import { el, section, select, table } from "./dom";
import * as format from "./format";
import { axisColor, gridColor, markChange, redrawn } from "./chart";
import { callName, rankName } from "./names";

const page = 50; // messages in the table

// Filter is which messages are shown. -1 is all.
interface Filter {
  function: number;
  from: number;
  to: number;
  least: number; // bytes
  begin: number; // ns
  end: number;
}

const order: [string, (data: Data, i: number) => number][] = [
  ["longest transfer", (d, i) => d.messages.transfer_ns[i]],
  ["waited longest", (d, i) => d.messages.waited_ns[i]],
  ["largest", (d, i) => d.messages.bytes[i]],
  ["first", (d, i) => -d.messages.posted_ns[i]],
];

// messagesSection shows messages as dots and as a table. Selecting a time in the chart filters the table.
export function messagesSection(data: Data): { element: HTMLElement; filter: (f: number) => void } {
  const filter: Filter = { function: -1, from: -1, to: -1, least: 0, begin: 0, end: Infinity };
  let by = 0;
  const chart = el("div", { class: "chart", id: "messages-chart" });
  const list = el("div", { id: "messages-list" });
  const found = el("output", { id: "found" });
  const tabulate = () => {
    const all = matching(data, filter);
    const value = order[by][1];
    const kept = all.sort((a, b) => value(data, b) - value(data, a)).slice(0, page);
    found.textContent = `${format.count(all.length, "message")}${all.length > page ? `, ${page} of them below` : ""}`;
    list.replaceChildren(table(["call", "from", "to", "bytes ", "posted ", "transfer ", "waited ", "sent again "], kept.map((i) => row(data, i))));
  };
  const draw = () => {
    Object.assign(filter, { begin: 0, end: Infinity });
    if (chart.clientWidth > 0) {
      drawDots(data, matching(data, filter), chart, (begin, end) => {
        Object.assign(filter, { begin, end });
        tabulate();
      });
    }
    tabulate();
  };
  const ranks = ["all", ...data.ranks.map((_, i) => rankName(data, i))];
  const least = el("input", { id: "least", type: "number", min: 0, value: 0, change: () => { filter.least = Number(least.value); draw(); } });
  const controls = el(
    "div", { class: "controls" },
    select("from", "from", ranks, (i) => { filter.from = i - 1; draw(); }),
    select("to", "to", ranks, (i) => { filter.to = i - 1; draw(); }),
    el("label", {}, "at least ", least, " bytes"),
    select("order", "order", order.map(([name]) => name), (i) => { by = i; tabulate(); }), found,
  );
  const shown = data.messages.posted_ns.length;
  const { all, arrived } = data.messages;
  const missing = arrived < all ? ` ${format.count(all - arrived, "message")} of ${all.toLocaleString("en")} did not arrive.` : "";
  const only = shown < arrived ? ` The ${shown.toLocaleString("en")} with the longest transfers are here, of ${arrived.toLocaleString("en")}.` : "";
  const element = section(
    "messages", "Messages",
    `A transfer is from the sender's post to the last byte at the receiver; waited is how long the first segment waited at ports and links. Drag over the chart to select a time; double-click for all.${missing}${only}`,
    controls, ...(data.functions.length > 1 ? [functionsLegend(data)] : []), chart, list,
  );
  redrawn(chart, draw);
  return { element, filter: (f) => { filter.function = f; draw(); } };
}

// functionsLegend says which colour the dots of each function have.
function functionsLegend(data: Data): HTMLElement {
  return el("ul", { class: "legend" }, ...data.functions.map((f, i) => el("li", {}, el("i", { style: `background:${colors.nth(i)}` }), f.name)));
}

// matching are the places of the messages that a filter lets through.
function matching(data: Data, f: Filter): number[] {
  const m = data.messages;
  const out: number[] = [];
  for (let i = 0; i < m.posted_ns.length; i++) {
    const ok =
      (f.function < 0 || functionOf(data, i) === f.function) && (f.from < 0 || m.from[i] === f.from) && (f.to < 0 || m.to[i] === f.to) &&
      m.bytes[i] >= f.least && m.posted_ns[i] >= f.begin && m.posted_ns[i] <= f.end;
    if (ok) {
      out.push(i);
    }
  }
  return out;
}

const functionOf = (data: Data, i: number): number => data.calls[data.messages.call[i]]?.function ?? -1;

function row(data: Data, i: number): string[] {
  const m = data.messages;
  const again = m.packets_sent_again[i];
  return [
    m.call[i] < 0 ? "" : callName(data, data.calls[m.call[i]]), rankName(data, m.from[i]), rankName(data, m.to[i]), format.bytes(m.bytes[i]),
    format.time(m.posted_ns[i]), format.time(m.transfer_ns[i]), format.time(m.waited_ns[i]), again > 0 ? format.count(again, "packet") : "",
  ];
}

// drawDots draws each message as a dot: its time, and that of its transfer.
function drawDots(data: Data, all: number[], place: HTMLElement, select: (begin: number, end: number) => void): void {
  place.replaceChildren();
  if (all.length === 0) {
    place.append(el("p", {}, "No message matches."));
    return;
  }
  const m = data.messages;
  const unit = format.unitFor(data.span_ns);
  const x = all.map((i) => m.posted_ns[i] / unit.ns);
  const y = all.map((i) => Math.max(m.transfer_ns[i], 1));
  const options: uPlot.Options = {
    width: Math.max(place.clientWidth, 200), height: 280, legend: { show: false },
    cursor: { points: { show: false }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { distr: 3 } },
    axes: [
      { label: `posted, ${unit.name}`, labelSize: 20, stroke: axisColor(), grid: { stroke: gridColor(), width: 1 } },
      { label: "transfer", labelSize: 20, size: 70, stroke: axisColor(), grid: { stroke: gridColor(), width: 1 }, values: (_u, v) => v.map((ns) => (ns == null ? "" : format.time(ns))) },
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: {
      draw: [(u) => dots(u, data, all, x, y), (u) => data.changes.forEach((c) => markChange(u, c.time_ns / unit.ns, c.text))],
      setScale: [(u, key) => {
        const { min, max } = u.scales.x;
        if (key === "x" && min != null && max != null && (min > x[0] || max < x[x.length - 1])) {
          select(min * unit.ns, max * unit.ns);
        } else if (key === "x") {
          select(0, Infinity);
        }
      }],
    },
  };
  new uPlot(options, [x, y], place);
}

// dots draws all messages of one function after those of another, so that the colour changes seldom.
function dots(u: uPlot, data: Data, all: number[], x: number[], y: number[]): void {
  const { left, top, width, height } = u.bbox;
  const size = all.length > 5000 ? 2 : 4;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  for (let f = -1; f < data.functions.length; f++) {
    u.ctx.fillStyle = f < 0 ? "#9e9e9e" : colors.nth(f);
    for (let k = 0; k < all.length; k++) {
      if (functionOf(data, all[k]) === f) {
        u.ctx.fillRect(u.valToPos(x[k], "x", true) - size / 2, u.valToPos(y[k], "y", true) - size / 2, size, size);
      }
    }
  }
  u.ctx.restore();
}
