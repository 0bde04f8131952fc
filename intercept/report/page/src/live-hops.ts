// SPDX-License-Identifier: Apache-2.0

import uPlot from "uplot";
import { axisColor, gridColor } from "./chart";
import { el, section, table } from "./dom";
import * as format from "./format";
import type { History } from "./history";
import type { Param, State } from "./live-data";
import { FabricMap } from "./map";

// HopsView shows the ports and links of one fabric: a map, the history of the chosen one, and a table.
export class HopsView {
  readonly element: HTMLElement;
  chosen = 0;
  private readonly map: FabricMap;
  private readonly place = el("div", { class: "chart", id: "history" });
  private readonly rows: HTMLElement;
  private chart?: uPlot;

  constructor(state: State, private readonly params: Param[], choose: (hop: number) => void) {
    this.map = new FabricMap(state.fabric, choose);
    const columns = ["port or link", ...this.shown().map((i) => params[i].label), "bytes ", "rate ", "busy ", "dropped ", "marked ", "paused "];
    this.rows = table(columns, state.hops.map(() => columns.map(() => "")), choose);
    this.rows.id = "hops";
    const clock = state.clock === "virtual" ? "A virtual clock stands still while no job runs." : `Time scale ${state.time_scale}.`;
    this.element = section(
      "fabric", "Load of the fabric",
      `Each direction of a port or link is a line: grey is idle, red is busy all the time. Rates are averages over the time of the emulated network between two looks, 1 s of this browser. ${clock} Click a line to see its history.`,
      el("div", { class: "scroll" }, this.map.element), this.place, this.rows,
    );
  }

  // shown are the parameters that have a column.
  private shown(): number[] {
    return ["bw", "lat", "loss"].map((flag) => this.params.findIndex((p) => p.flag === flag)).filter((i) => i >= 0);
  }

  choose(hop: number): void {
    this.chosen = hop;
    this.map.choose(hop);
    this.chart?.destroy();
    this.chart = undefined;
  }

  show(s: State, history: History): void {
    const { hops } = s.fabric;
    this.map.show((h) => history.latest(h).busy, (h) => hops[h].down, (h) => `${hops[h].name}: busy ${format.percent(history.latest(h).busy)}${hops[h].down ? ", down" : ""}`);
    const rows = this.rows.querySelectorAll("tbody tr");
    s.hops.forEach((hop, h) => {
      const { busy, bps } = history.latest(h);
      const set = this.shown().map((i) => (hop.link || this.params[i].flag === "bw" ? hop.set[i] : ""));
      const name = `${hops[h].name}${hops[h].down ? " (down)" : ""}${hop.changed ? " *" : ""}`;
      const cells = [name, ...set, format.bytes(hop.bytes), format.rate(bps, "0"), format.percent(busy), figure(hop.drops), figure(hop.ecn_marked), hop.paused_ns ? format.time(hop.paused_ns) : ""];
      cells.forEach((text, i) => (rows[h].children[i].textContent = text));
      rows[h].classList.toggle("off", hops[h].down);
    });
    this.draw(s, history);
  }

  private draw(s: State, history: History): void {
    const { ago, rates } = history.series(this.chosen);
    const data: uPlot.AlignedData = [ago, rates.map((r) => 100 * r.busy), rates.map((r) => r.bps)];
    if (this.chart) {
      this.chart.setData(data);
      return;
    }
    const axis = { stroke: axisColor(), labelSize: 20 };
    const options: uPlot.Options = {
      title: s.fabric.hops[this.chosen].name, width: Math.max(this.place.clientWidth, 300), height: 220,
      scales: { x: { time: false, range: [-180, 0] }, busy: { range: (_u, _min, max) => [0, Math.max(max, 100)] }, rate: { range: (_u, _min, max) => [0, Math.max(max, 1)] } },
      axes: [
        { ...axis, label: "s before now", grid: { stroke: gridColor() } },
        { ...axis, scale: "busy", label: "busy, %", grid: { stroke: gridColor() } },
        { ...axis, scale: "rate", side: 1, label: "rate", size: 90, grid: { show: false }, values: (_u, v) => v.map((x) => format.rate(x, "0")) },
      ],
      series: [
        { label: "s before now", value: (_u, v) => (v == null ? "" : v.toFixed(0)) },
        { label: "busy, %", scale: "busy", stroke: "#1e88e5", fill: "#1e88e533", value: (_u, v) => (v == null ? "" : v.toFixed(1)) },
        { label: "rate", scale: "rate", stroke: "#ef6c00", value: (_u, v) => (v == null ? "" : format.rate(v, "0")) },
      ],
    };
    this.place.replaceChildren();
    this.chart = new uPlot(options, data, this.place);
  }
}

const figure = (n: number): string => (n > 0 ? n.toLocaleString("en") : "");
