// SPDX-License-Identifier: Apache-2.0

import { el, section } from "./dom";
import * as format from "./format";
import type { History } from "./history";
import { HistoryChart } from "./live-chart";
import type { Page, State } from "./live-data";
import { HopTable } from "./live-table";
import { FabricMap } from "./map";

// HopsView shows the ports and links of a fabric: a map, the history of the chosen one, and a table.
export class HopsView {
  readonly element: HTMLElement;
  private readonly place = el("div", { id: "map" });
  private readonly clock = el("span", {});
  private readonly chart = new HistoryChart();
  private readonly table: HopTable;
  private map?: FabricMap;

  // choose is called with the hop that the reader has chosen.
  constructor(page: Page, private readonly choose: (hop: number) => void) {
    this.table = new HopTable(page, choose);
    this.element = section(
      "fabric", "Load of the fabric",
      "Each direction of a port or link is a line: grey is idle, red is busy all the time, dashed is down. Click one to see its history, and to name it in the form below. Links between NICs are drawn if they are slower than the port, or down.",
      el("p", { class: "about" }, "Rates and loads are averages between two looks, over the time of the emulated network. The page looks once a second. ", this.clock),
      this.place, this.chart.element, this.table.element, el("p", { class: "about" }, "* changed since the fabric was brought up."),
    );
  }

  // begin shows another fabric.
  begin(s: State): void {
    this.table.fabric(s);
    this.fabric(s);
  }

  // fabric draws a fabric anew, because it has other hops.
  fabric(s: State): void {
    this.clock.textContent = s.clock === "virtual" ? "The virtual clock stands still while no job runs." : "";
    this.map = new FabricMap(s.fabric, s.hops, this.choose);
    this.place.replaceChildren(this.map.element);
  }

  // show shows the state of the fabric that is drawn.
  show(s: State, history: History, chosen: number): void {
    this.map!.choose(chosen);
    this.map!.show((h) => history.latest(h).busy, (h) => s.hops[h].down, (h) => `${s.hops[h].name}: busy ${format.percent(history.latest(h).busy)}${s.hops[h].down ? ", down" : ""}`);
    this.chart.show(s.hops[chosen].name, chosen, history);
    this.table.show(s, history, chosen);
  }
}
