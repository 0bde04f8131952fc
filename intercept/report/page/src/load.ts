// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import { downs } from "./bottleneck";
import { axisColor, gridColor, markChange, redrawn } from "./chart";
import * as colors from "./colors";
import type { Data } from "./data";
import { el, section, table } from "./dom";
import * as format from "./format";
import { FabricMap } from "./map";
import type { Label } from "./map-labels";
import { rates } from "./rates";

const listed = 20; // ports and links in the table
const mostLabels = 8; // of links that were down, on the map

// loadSection draws the fabric with a slider for the time, and the load of one port or link over time.
export function loadSection(data: Data, palette: colors.Palette): HTMLElement {
  const { hops } = data.fabric;
  const windows = Math.max(0, ...data.load.hops.map((h) => h.busy.length));
  let window = -1; // -1 is the whole
  const share = (h: number) =>
    window < 0 ? hops[h].busy_ns / Math.max(data.span_ns, 1) : (data.load.hops[h].busy[window] ?? 0) / 1000;
  const wasDown = (h: number) => (data.load.hops[h].down ?? []).length > 0;
  const isDown = (h: number) => {
    const at = (window + 0.5) * data.load.window_ns;
    return window < 0 ? hops[h].down || wasDown(h) : (data.load.hops[h].down ?? []).some(([begin, end]) => begin <= at && at < end);
  };
  const map = new FabricMap(data.fabric, hops, (h) => choose(h), labels(data, palette));
  const now = el("output", { id: "now" });
  const show = () => {
    now.textContent = window < 0 ? `average of ${format.time(data.span_ns)}` : `at ${format.time(window * data.load.window_ns)}`;
    map.show(share, isDown, (h) => `${hops[h].name}: busy ${format.percent(share(h))}${isDown(h) ? ", down" : ""}`);
  };
  const slider = el("input", {
    type: "range", id: "time", min: -1, max: windows - 1, value: -1, step: 1, "aria-label": "time",
    input: () => {
      window = Number(slider.value);
      show();
    },
  });
  const play = player(slider, () => windows);
  const chart = el("div", { class: "chart", id: "load-chart" });
  const order = hops.map((_, i) => i).sort((a, b) => hops[b].busy_ns - hops[a].busy_ns);
  let chosen = Math.max(0, hops.findIndex((h) => h.name === data.bottleneck?.link));
  if (hops[chosen]?.name !== data.bottleneck?.link) {
    chosen = order[0] ?? 0;
  }
  const choose = (h: number) => {
    chosen = h;
    map.choose(h);
    drawLoad(data, h, palette.link(hops[h].name), chart);
  };
  // Links that were down come first: they may have carried little.
  const rows = [...order].sort((a, b) => Number(wasDown(b)) - Number(wasDown(a))).slice(0, listed);
  const anyDown = downs(data).length > 0;
  const more = order.length > listed ? ` The table has the ${listed} busiest of ${order.length}.` : "";
  const out = section(
    "fabric", "Load of the fabric",
    `Each direction of a port or link is a line.${data.fabric.racks ? " In a rack, a NIC sends in the upper half of its box and receives in the lower one." : ""} Grey is idle, purple is busy all the time, red and dashed is down, or was. The slider goes through the time. Click a line to see its load below.${more}`,
    el("div", { class: "controls" }, play, slider, now), map.element, chart,
    table(["port or link", "rate ", "bytes ", "busy ", "most waiting ", "sent again ", ...(anyDown ? ["down"] : [])], rows.map((h) => row(data, palette, h, anyDown)), (r) => choose(rows[r])),
  );
  show();
  if (order.length > 0) {
    redrawn(chart, () => choose(chosen));
  }
  return out;
}

// labels name the slowest link, and those that were down with the time.
function labels(data: Data, palette: colors.Palette): Label[] {
  const { hops } = data.fabric;
  const slowest = hops.findIndex((h) => h.name === data.bottleneck?.link);
  const off = downs(data).slice(0, mostLabels).map((d) => ({ hop: d.hop, text: `${hops[d.hop].name} down ${format.period(d.begin, d.end)}`, look: "off", color: colors.down }));
  return [...off, ...(slowest < 0 ? [] : [{ hop: slowest, text: hops[slowest].name, look: "slowest", color: palette.link(hops[slowest].name) }])];
}

function row(data: Data, palette: colors.Palette, h: number, anyDown: boolean): (string | HTMLElement)[] {
  const hop = data.fabric.hops[h];
  const load = data.load.hops[h];
  const queue = Math.max(0, ...load.queue);
  const again = hop.packets_sent_again > 0 ? format.count(hop.packets_sent_again, "packet") : "";
  const off = (load.down ?? []).map(([begin, end]) => format.period(begin, end)).join(", ");
  return [
    el("span", {}, el("i", { class: "swatch", style: `background:${palette.link(hop.name)}` }), hop.name), rates(hop), format.bytes(hop.bytes),
    format.percent(hop.busy_ns / Math.max(data.span_ns, 1)), format.bytes(queue), again, ...(anyDown ? [el("span", { class: "off" }, off)] : []),
  ];
}

// player is a button that moves the slider from its begin to its end in about 10 s.
function player(slider: HTMLInputElement, windows: () => number): HTMLElement {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  };
  const step = () => {
    slider.value = String(Number(slider.value) + 1);
    slider.dispatchEvent(new Event("input"));
    if (Number(slider.value) >= windows() - 1) {
      stop();
    }
  };
  const start = () => {
    if (Number(slider.value) >= windows() - 1) {
      slider.value = "-1";
    }
    button.textContent = "Stop";
    timer = setInterval(step, Math.max(25, 10_000 / Math.max(windows(), 1)));
  };
  const button = el("button", { id: "play", click: () => (timer ? stop() : start()) }, "Play");
  return button;
}

const powers = Array.from({ length: 50 }, (_, i) => 2 ** i); // steps between bytes of an axis

// drawLoad draws how busy a hop was and how much waited for it, over time, and when it was down.
function drawLoad(data: Data, h: number, color: string, place: HTMLElement): void {
  const { busy, queue, down = [] } = data.load.hops[h];
  const { name, changes = [] } = data.fabric.hops[h];
  place.replaceChildren();
  if (busy.length === 0) {
    const off = down.map(([begin, end]) => ` It was down from ${format.period(begin, end)}.`);
    place.append(el("p", {}, `${name} carried nothing.`, ...(off.length > 0 ? [el("span", { class: "off" }, off.join(""))] : [])));
    return;
  }
  const unit = format.unitFor(data.span_ns);
  const times = busy.map((_, w) => (w * data.load.window_ns) / unit.ns);
  const step = uPlot.paths.stepped!({ align: 1 });
  const axis = { stroke: axisColor(), labelSize: 20 };
  const grid = { stroke: gridColor(), width: 1 };
  const options: uPlot.Options = {
    title: name, width: Math.max(place.clientWidth, 200), height: 240,
    scales: { x: { time: false }, busy: { range: [0, 100] }, queue: { range: (_u, _min, max) => [0, Math.max(max, 1)] } },
    axes: [
      { ...axis, label: `time, ${unit.name}`, grid },
      { ...axis, scale: "busy", label: "busy, %", grid },
      { ...axis, scale: "queue", side: 1, label: "waiting", size: 80, grid: { show: false }, incrs: powers, values: (_u, v) => v.map(format.bytes) },
    ],
    series: [
      { label: `time, ${unit.name}` },
      { label: "busy, %", scale: "busy", stroke: color, fill: `${color}44`, paths: step },
      { label: "waiting", scale: "queue", stroke: axisColor(), width: 0.7, paths: step, value: (_u, v) => (v == null ? "" : format.bytes(v)) },
    ],
    hooks: {
      draw: [
        (u) => down.forEach(([begin, end]) => shadeDown(u, begin / unit.ns, end / unit.ns)),
        (u) => changes.forEach((c) => markChange(u, c.time_ns / unit.ns, c.what)),
      ],
    },
  };
  new uPlot(options, [times, busy.map((b) => b / 10), queue], place);
}

// shadeDown shades the time from begin to end in red.
function shadeDown(u: uPlot, begin: number, end: number): void {
  const { left, top, width, height } = u.bbox;
  const x = Math.max(left, u.valToPos(begin, "x", true));
  const right = Math.min(left + width, u.valToPos(end, "x", true));
  u.ctx.save();
  u.ctx.fillStyle = `${colors.down}55`;
  u.ctx.fillRect(x, top, Math.max(right - x, 2), height);
  u.ctx.restore();
}
