// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import { axisColor, gridColor } from "./chart";
import type { Data } from "./data";
import { el, section, table } from "./dom";
import * as format from "./format";
import { FabricMap } from "./map";

const listed = 20; // ports and links in the table

// loadSection draws the fabric with a slider for the time, and the load of one port or link over time.
export function loadSection(data: Data): HTMLElement {
  const { hops } = data.fabric;
  const windows = Math.max(0, ...data.load.hops.map((h) => h.busy.length));
  let window = -1; // -1 is the whole
  const share = (h: number) =>
    window < 0 ? hops[h].busy_ns / Math.max(data.span_ns, 1) : (data.load.hops[h].busy[window] ?? 0) / 1000;
  const isDown = (h: number) => {
    const at = (window + 0.5) * data.load.window_ns;
    return window < 0 ? hops[h].down : (data.load.hops[h].down ?? []).some(([begin, end]) => begin <= at && at < end);
  };
  const map = new FabricMap(data.fabric, hops, (h) => choose(h));
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
  const choose = (h: number) => {
    map.choose(h);
    drawLoad(data, h, chart);
  };
  const rows = order.slice(0, listed).map((h) => row(data, h));
  const more = order.length > listed ? ` The table has the ${listed} busiest of ${order.length}.` : "";
  const out = section(
    "fabric", "Load of the fabric",
    `Each direction of a port or link is a line: grey is idle, red is busy all the time. The slider goes through the time. Click a line to see its load below.${more}`,
    el("div", { class: "controls" }, play, slider, now), map.element, chart,
    table(["port or link", "rate ", "bytes ", "busy ", "most waiting ", "sent again "], rows, (r) => choose(order[r])),
  );
  show();
  if (order.length > 0) {
    requestAnimationFrame(() => choose(order[0])); // when the chart has a width
  }
  return out;
}

function row(data: Data, h: number): string[] {
  const hop = data.fabric.hops[h];
  const queue = Math.max(0, ...data.load.hops[h].queue);
  const again = hop.packets_sent_again > 0 ? format.count(hop.packets_sent_again, "packet") : "";
  return [hop.name, format.rate(hop.bandwidth_bps), format.bytes(hop.bytes), format.percent(hop.busy_ns / Math.max(data.span_ns, 1)), format.bytes(queue), again];
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

// drawLoad draws how busy a hop was and how much waited for it, over time.
function drawLoad(data: Data, h: number, place: HTMLElement): void {
  const { busy, queue } = data.load.hops[h];
  const times = busy.map((_, w) => (w * data.load.window_ns) / 1000);
  const width = Math.max(place.clientWidth, 300);
  place.replaceChildren();
  if (busy.length === 0) {
    place.append(el("p", {}, `${data.fabric.hops[h].name} carried nothing.`));
    return;
  }
  const step = uPlot.paths.stepped!({ align: 1 });
  const options: uPlot.Options = {
    title: data.fabric.hops[h].name, width, height: 220,
    scales: { x: { time: false }, busy: { range: [0, 100] }, queue: { range: (_u, _min, max) => [0, Math.max(max, 1)] } },
    axes: [
      { label: "time, us", labelSize: 20, stroke: axisColor(), grid: { stroke: gridColor() } },
      { scale: "busy", label: "busy, %", labelSize: 20, stroke: axisColor(), grid: { stroke: gridColor() } },
      { scale: "queue", side: 1, label: "waiting", labelSize: 20, size: 80, stroke: axisColor(), grid: { show: false }, values: (_u, v) => v.map(format.bytes) },
    ],
    series: [
      { label: "time, us" },
      { label: "busy, %", scale: "busy", stroke: "#1e88e5", fill: "#1e88e533", paths: step },
      { label: "waiting", scale: "queue", stroke: "#ef6c00", paths: step, value: (_u, v) => (v == null ? "" : format.bytes(v)) },
    ],
  };
  new uPlot(options, [times, busy.map((b) => b / 10), queue], place);
}
