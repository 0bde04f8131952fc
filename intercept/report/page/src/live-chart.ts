// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import { axisColor, gridColor } from "./chart";
import { el } from "./dom";
import * as format from "./format";
import type { History } from "./history";

const height = 220; // px

// HistoryChart draws what one hop did in the last minutes.
export class HistoryChart {
  readonly element = el("div", { class: "chart", id: "history" });
  private chart?: uPlot;
  private title = "";

  constructor() {
    window.addEventListener("resize", () => this.chart?.setSize({ width: this.width(), height }));
  }

  show(name: string, hop: number, history: History): void {
    const { ago, rates } = history.series(hop);
    const data: uPlot.AlignedData = [ago, rates.map((r) => 100 * r.busy), rates.map((r) => r.bps)];
    if (this.chart && this.title === name) {
      this.chart.setData(data);
      return;
    }
    this.chart?.destroy();
    this.title = name;
    this.chart = new uPlot(options(name, this.width()), data, this.element);
  }

  private width(): number {
    return Math.max(this.element.clientWidth, 260);
  }
}

function options(title: string, width: number): uPlot.Options {
  const axis = { stroke: axisColor(), labelSize: 20 };
  const figure = (text: (v: number) => string) => (_u: uPlot, v: number | null) => (v == null ? "" : text(v));
  return {
    title, width, height,
    scales: {
      x: { time: false, range: [-180, 0] },
      busy: { range: (_u, _min, max) => [0, Math.max(max, 100)] },
      rate: { range: (_u, _min, max) => [0, Math.max(max, 1000)] },
    },
    axes: [
      { ...axis, label: "s before now", grid: { stroke: gridColor() } },
      { ...axis, scale: "busy", label: "busy, %", grid: { stroke: gridColor() } },
      { ...axis, scale: "rate", side: 1, label: "rate", size: 80, grid: { show: false }, values: (_u, v) => v.map((x) => format.rate(x, "0")) },
    ],
    series: [
      { label: "s before now", value: figure((v) => v.toFixed(0)) },
      { label: "busy, %", scale: "busy", stroke: "#1e88e5", fill: "#1e88e533", value: figure((v) => v.toFixed(1)) },
      { label: "rate", scale: "rate", stroke: "#ef6c00", value: figure((v) => format.rate(v, "0")) },
    ],
  };
}
