// SPDX-License-Identifier: Apache-2.0

import { el, section, table } from "./dom";
import type { History } from "./history";
import { counted, type Page, type State } from "./live-data";
import * as units from "./units";

const most = 50; // rows
const orders = ["as in the fabric", "busiest now", "most bytes"];
const busiest = 1; // place in orders

// Column is one of the table. A hop whose figure is undefined has none.
interface Column {
  head: string;
  unit?: (most: number) => units.Unit; // of figures that have one
  beside?: string; // head of a column that has the same unit
  figures?: (hop: number) => number | undefined;
  texts?: (hop: number) => string;
}

// HopTable lists the ports and links of a fabric: those whose name has a text, in an order.
export class HopTable {
  readonly element: HTMLElement;
  private readonly filter = el("input", { id: "filter", type: "search", size: 16, placeholder: "part of a name", input: () => this.again() });
  private readonly found = el("output", { id: "found" });
  private readonly place = el("div", { id: "hops" });
  private readonly order = el("select", { id: "order", change: () => this.again() }, ...orders.map((o) => el("option", {}, o)));
  private listed: number[] = []; // hops, by rows
  private again = (): void => {};

  constructor(private readonly page: Page, private readonly choose: (hop: number) => void) {
    this.element = section(
      "list", "Ports and links", "Busy and rate are averages between two looks at the fabric, a second apart. Click a row for its history. * was changed since the fabric was brought up.",
      el("div", { class: "controls" }, el("label", {}, "show ", this.filter), el("label", {}, "order ", this.order), this.found), this.place,
    );
  }

  // fabric begins with the busiest if the fabric has more hops than the table has rows.
  fabric(s: State): void {
    this.order.selectedIndex = s.hops.length > most ? busiest : 0;
  }

  show(s: State, history: History, chosen: number): void {
    this.again = () => this.show(s, history, chosen);
    const hops = this.find(s, history);
    const several = hops.length > most ? `, ${most} of them below` : "";
    this.found.textContent = `${hops.length.toLocaleString("en")} of ${s.hops.length.toLocaleString("en")}${several}`;
    const columns = this.columns(s, history);
    if (this.place.firstChild === null || this.listed.length !== Math.min(hops.length, most)) {
      const heads = columns.map((c) => (c.texts ? c.head : `${c.head} `));
      this.place.replaceChildren(table(heads, hops.slice(0, most).map(() => heads.map(() => "")), (row) => this.choose(this.listed[row])));
    }
    this.listed = hops.slice(0, most);
    const heads = this.place.querySelectorAll("thead th");
    const rows = [...this.place.querySelectorAll("tbody tr")];
    columns.forEach((c, i) => {
      const { head, cells } = this.column(c, columns);
      const isEmpty = cells.every((text) => text === "");
      write(heads[i], head, isEmpty);
      rows.forEach((row, r) => write(row.children[i], cells[r], isEmpty));
    });
    rows.forEach((row, r) => {
      row.classList.toggle("off", s.hops[this.listed[r]].down);
      row.classList.toggle("chosen", this.listed[r] === chosen);
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

  // columns are all columns, the most important ones first: a narrow window has space for these.
  private columns(s: State, history: History): Column[] {
    const { params, counters } = this.page;
    const label = (flag: string) => params.find((p) => p.flag === flag)?.label ?? flag;
    const loss = params.findIndex((p) => p.flag === "loss");
    const some = (n: number) => (n > 0 ? n : undefined);
    return [
      { head: "port or link", texts: (h) => `${s.hops[h].name}${s.hops[h].down ? " (down)" : ""}${s.hops[h].changed ? " *" : ""}` },
      { head: "busy", unit: () => ({ name: "%", scale: 0.01, write: (v) => (100 * v).toFixed(v > 0 && v < 0.1 ? 1 : 0) }), figures: (h) => history.latest(h).busy },
      { head: "rate", unit: units.rate, beside: label("bw"), figures: (h) => history.latest(h).bps },
      { head: "bytes", unit: units.bytes, figures: (h) => s.hops[h].bytes },
      { head: label("bw"), unit: units.rate, beside: "rate", figures: (h) => some(s.hops[h].bandwidth_bps) },
      { head: label("lat"), unit: units.time, figures: (h) => (s.hops[h].link ? s.hops[h].latency_ns : undefined) },
      { head: label("loss"), texts: (h) => (s.hops[h].link && s.hops[h].loss ? s.hops[h].set[loss] : "") },
      { head: "dropped", figures: (h) => some(s.hops[h].drops) },
      ...counters.filter((c) => c.label !== "").map((c) => ({ head: c.label, unit: c.time ? units.time : undefined, figures: (h: number) => some(counted(s.hops[h], c)) })),
    ];
  }

  // column is the headline of a column and its text in each row.
  private column(c: Column, all: Column[]): { head: string; cells: string[] } {
    if (c.texts) {
      return { head: c.head, cells: this.listed.map(c.texts) };
    }
    const figures = this.listed.map(c.figures!);
    const beside = all.find((o) => o.head === c.beside)?.figures;
    const unit = c.unit?.(Math.max(0, ...[...figures, ...(beside ? this.listed.map(beside) : [])].map((v) => v ?? 0)));
    const text = unit ? unit.write : (v: number) => v.toLocaleString("en");
    return { head: unit ? `${c.head}, ${unit.name}` : c.head, cells: figures.map((v) => (v === undefined ? "" : text(v))) };
  }
}

// write writes the text of a cell, which is hidden if its column is empty.
function write(cell: Element, text: string, isEmpty: boolean): void {
  if (cell.textContent !== text) {
    cell.textContent = text;
  }
  cell.toggleAttribute("hidden", isEmpty);
}
