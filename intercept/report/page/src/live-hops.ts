// SPDX-License-Identifier: Apache-2.0

import { el, section } from "./dom";
import * as format from "./format";
import type { History } from "./history";
import { HistoryChart } from "./live-chart";
import type { Page, Series, State } from "./live-data";
import { HopTable } from "./live-table";
import { FabricMap } from "./map";

// HopsView shows the ports and links of a fabric: a map with the history of the chosen one, and a list.
export class HopsView {
  readonly element: HTMLElement;
  readonly list: HTMLElement;
  private readonly place = el("div", { id: "map" });
  private readonly chart = new HistoryChart();
  private readonly table: HopTable;
  private map?: FabricMap;

  // choose is called with the hop that the reader has chosen.
  constructor(page: Page, private readonly choose: (hop: number) => void) {
    this.table = new HopTable(page, choose);
    this.list = this.table.element;
    this.element = section(
      "fabric", "Load of the fabric",
      "Each direction of a port or link is a line; in a rack, a NIC sends in the upper half of its box. Grey is idle, purple is busy all the time, red and dashed is down. Click one for its history.",
      this.place, this.chart.element,
    );
  }

  // begin shows another fabric.
  begin(s: State): void {
    this.table.fabric(s);
    this.fabric(s);
  }

  // fabric draws a fabric anew, because it has other hops.
  fabric(s: State): void {
    this.map = new FabricMap(s.drawing, s.hops, this.choose);
    this.place.replaceChildren(this.map.element);
  }

  // show shows the state of the fabric that is drawn, and the history of the chosen hop.
  show(s: State, history: History, chosen: number, series: Series): void {
    this.map!.choose(chosen);
    this.map!.show((h) => history.latest(h).busy, (h) => s.hops[h].down, (h) => `${s.hops[h].name}: busy ${format.percent(history.latest(h).busy)}${s.hops[h].down ? ", down" : ""}`);
    this.chart.show(series);
    this.table.show(s, history, chosen);
  }
}
