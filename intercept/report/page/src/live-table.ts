// SPDX-License-Identifier: Apache-2.0

import { el, table } from "./dom";
import * as format from "./format";
import type { History } from "./history";
import { counted, type Counter, type Hop, type Page, type State } from "./live-data";

const most = 50; // rows
const orders = ["as in the fabric", "busiest now", "most bytes"];
const busiest = 1; // place in orders

// HopTable lists the ports and links of a fabric: those whose name has a text, in an order.
export class HopTable {
  readonly element: HTMLElement;
  private readonly filter = el("input", { id: "filter", type: "search", size: 16, placeholder: "part of a name", input: () => this.again() });
  private readonly found = el("output", { id: "found" });
  private readonly place = el("div", { id: "hops" });
  private readonly heads: string[];
  private readonly columns: number[]; // places of parameters
  private readonly counters: Counter[]; // with a column
  private readonly order = el("select", { id: "order", change: () => this.again() }, ...orders.map((o) => el("option", {}, o)));
  private listed: number[] = []; // hops, by rows
  private again = (): void => {};

  constructor(private readonly page: Page, private readonly choose: (hop: number) => void) {
    this.counters = page.counters.filter((c) => c.label !== "");
    this.columns = ["bw", "lat", "loss"].map((flag) => page.params.findIndex((p) => p.flag === flag)).filter((i) => i >= 0);
    this.heads = ["port or link", ...this.columns.map((i) => page.params[i].label), "bytes ", "rate ", "busy ", "dropped ", ...this.counters.map((c) => `${c.label} `)];
    this.element = el("div", {}, el("div", { class: "controls" }, el("label", {}, "show ", this.filter), el("label", {}, "order ", this.order), this.found), this.place);
  }

  // fabric begins with the busiest if the fabric has more hops than the table has rows.
  fabric(s: State): void {
    this.order.selectedIndex = s.hops.length > most ? busiest : 0;
  }

  show(s: State, history: History, chosen: number): void {
    this.again = () => this.show(s, history, chosen);
    const hops = this.find(s, history);
    const several = hops.length > most ? `, ${most} of them below` : "";
    this.found.textContent = `${hops.length.toLocaleString("en")} of ${s.hops.length.toLocaleString("en")} ports and links${several}`;
    if (this.place.firstChild === null || this.listed.length !== Math.min(hops.length, most)) {
      this.place.replaceChildren(table(this.heads, hops.slice(0, most).map(() => this.heads.map(() => "")), (row) => this.choose(this.listed[row])));
    }
    this.listed = hops.slice(0, most);
    const rows = this.place.querySelectorAll("tbody tr");
    this.listed.forEach((h, r) => {
      this.cells(s.hops[h], history, h).forEach((text, i) => {
        if (rows[r].children[i].textContent !== text) {
          rows[r].children[i].textContent = text;
        }
      });
      rows[r].classList.toggle("off", s.hops[h].down);
      rows[r].classList.toggle("chosen", h === chosen);
    });
  }

  private find(s: State, history: History): number[] {
    const text = this.filter.value.trim();
    const hops = s.hops.map((_, h) => h).filter((h) => s.hops[h].name.includes(text));
    if (this.order.selectedIndex === busiest) {
      const busy = s.hops.map((_, h) => history.latest(h).busy);
      return hops.sort((a, b) => busy[b] - busy[a] || s.hops[b].bytes - s.hops[a].bytes || a - b);
    }
    return this.order.selectedIndex > busiest ? hops.sort((a, b) => s.hops[b].bytes - s.hops[a].bytes || a - b) : hops;
  }

  private cells(hop: Hop, history: History, h: number): string[] {
    const { busy, bps } = history.latest(h);
    const set = this.columns.map((i) => (hop.link || this.page.params[i].flag === "bw" ? hop.set[i] : ""));
    const name = `${hop.name}${hop.down ? " (down)" : ""}${hop.changed ? " *" : ""}`;
    return [name, ...set, format.bytes(hop.bytes), format.rate(bps, "0"), format.percent(busy), figure(hop.drops), ...this.counters.map((c) => figure(counted(hop, c), c.time))];
  }
}

const figure = (n: number, time = false): string => (n > 0 ? (time ? format.time(n) : n.toLocaleString("en")) : "");
