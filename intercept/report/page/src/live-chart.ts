// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import { axisColor, gridColor, redrawn } from "./chart";
import { el } from "./dom";
import * as format from "./format";
import type { Series } from "./live-data";
import * as units from "./units";

const height = 150; // px of each chart
const leastTicks = 35; // px between ticks of a scale

// HistoryChart draws what one hop did since the start of the last job: how busy it was, and at which rate it sent. Each
// has a chart of its own, because each has a unit of its own.
export class HistoryChart {
  readonly element = el("div", { id: "history" });
  private readonly title = el("h3", {});
  private readonly about = el("p", { class: "about" });
  private readonly now = el("output", {});
  private readonly places = [el("div", { class: "part" }), el("div", { class: "part" })];
  private charts: uPlot[] = [];
  private drawn = ""; // what the charts are for

  constructor() {
    this.element.append(this.title, this.about, ...this.places, this.now);
    redrawn(this.element, () => this.charts.forEach((c) => {
      c.setSize({ width: this.width(), height });
      c.redraw(true, true); // the colours of the scales too
    }));
  }

  // show draws a series. A job of which nothing is recorded yet has no charts.
  show(s: Series): void {
    this.title.textContent = s.hop;
    this.about.textContent = about(s);
    const ns = s.at_ns[s.at_ns.length - 1] ?? 0;
    const [time, rate] = [units.time(ns), units.rate(Math.max(0, ...s.bps))];
    const at = [0, ...s.at_ns].map((t) => t / time.scale);
    const steps = (values: number[], scale: number) => [values[0], ...values].map((v) => v / scale);
    const data: uPlot.AlignedData[] = [[at, steps(s.busy, 0.01)], [at, steps(s.bps, rate.scale)]];
    const drawn = s.at_ns.length > 0 ? [s.id, s.job, s.hop, time.name, rate.name].join(" ") : "";
    if (drawn !== "" && drawn === this.drawn) {
      this.charts.forEach((c, i) => c.setData(data[i]));
      return;
    }
    this.charts.forEach((c) => c.destroy());
    this.now.textContent = "";
    this.drawn = drawn;
    this.charts = drawn === "" ? [] : [
      new uPlot(this.options(`busy, %`, time.name, "#1e88e5", 100), data[0], this.places[0]),
      new uPlot(this.options(`rate, ${rate.name}`, time.name, "#ef6c00", 0), data[1], this.places[1]),
    ];
  }

  private width(): number {
    return Math.max(this.element.clientWidth, 240);
  }

  private options(title: string, time: string, color: string, least: number): uPlot.Options {
    const axis: uPlot.Axis = { stroke: axisColor, grid: { stroke: gridColor }, ticks: { stroke: gridColor } };
    return {
      title, width: this.width(), height,
      legend: { show: false },
      cursor: { y: false, sync: { key: "history" } },
      scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, Math.max(1.05 * max, least, 1e-3)] } },
      axes: [
        { ...axis, size: 30, space: 70, values: (_u, v) => v.map((x, i) => (i === 0 ? `${x} ${time}` : String(x))) },
        { ...axis, size: 46, space: leastTicks },
      ],
      series: [{}, { stroke: color, fill: `${color}33`, paths: uPlot.paths.stepped!({ align: -1 }), points: { show: false } }],
      hooks: { setCursor: [(u) => this.read(u, time)] },
    };
  }

  // read writes the figures at the place of the mouse.
  private read(u: uPlot, time: string): void {
    const i = u.cursor.idx;
    this.now.textContent = i == null ? "" : `until ${u.data[0][i].toPrecision(4)} ${time}: ${this.charts.map((c) => `${(c.data[1][i] ?? 0).toPrecision(3)} (${c.root.querySelector(".u-title")!.textContent})`).join("; ")}`;
  }
}

function about(s: Series): string {
  if (s.job < 0) {
    return "No job has run since this server was started.";
  }
  if (s.at_ns.length === 0 && !s.running) {
    return `Job ${s.job} ended before this server was started: it has no history.`;
  }
  const begin = s.whole ? `Job ${s.job} from its begin` : `Job ${s.job} from when this server was started`;
  const total = s.at_ns.length > 0 ? `, ${format.time(s.at_ns[s.at_ns.length - 1])} of the network` : "";
  return `${begin}${s.running ? ", it runs" : ""}${total}.`;
}
