// SPDX-License-Identifier: Apache-2.0

import type { Palette } from "./colors";
import type { Call, Data, Part } from "./data";
import { el, section } from "./dom";
import * as format from "./format";
import { callName } from "./names";

const longest = 20; // calls that are drawn
const named = 12; // causes in a legend
const smaller = "#b8c2c8"; // the colour of causes that are too small

// Bars draws times with the colours of their causes.
class Bars {
  constructor(private readonly data: Data, private readonly palette: Palette) {}

  // bar draws the parts of a time side by side. Its width is that of the time in most.
  bar(parts: Part[], all: number, most: number): HTMLElement {
    const known = parts.reduce((sum, p) => sum + p.time_ns, 0);
    const pieces = parts.filter((p) => p.time_ns > 0).map((p) => piece(p.time_ns, all, this.palette.cause(p.cause), this.data.causes[p.cause].text));
    if (all > known) {
      pieces.push(piece(all - known, all, smaller, "smaller causes"));
    }
    return el("div", { class: "bar", style: `width:${(100 * all) / Math.max(most, 1)}%` }, ...pieces);
  }

  legend(parts: Part[], all: number): HTMLElement {
    const rest = parts.slice(named).reduce((sum, p) => sum + p.time_ns, 0);
    const one = (time: number, color: string, text: string) =>
      el("li", {}, el("i", { style: `background:${color}` }), `${format.percent(time / Math.max(all, 1))} ${text}`);
    return el(
      "ul", { class: "legend" }, ...parts.slice(0, named).map((p) => one(p.time_ns, this.palette.cause(p.cause), this.data.causes[p.cause].text)),
      ...(rest > 0 ? [one(rest, smaller, format.count(parts.length - named, "smaller cause"))] : []),
    );
  }

  // criticalPath draws the causes of a call in the order of time, if the document has them.
  criticalPath(call: Call): HTMLElement {
    const parts = call.path ?? call.parts;
    const until = call.ended ? "its last byte" : "the end of the ledgers";
    const last = call.ended ? `last byte at ${call.last_rank}` : `${call.last_rank} waits for a message`;
    const order = call.path ? `from its start to ${until}` : "the largest cause first; the order is only known of the longest calls";
    return el(
      "div", { class: "critical" },
      el("h3", {}, `${callName(this.data, call)}: ${call.ended ? "" : "not ended after "}${format.time(call.time_ns)}, ${order}`),
      el("p", { class: "about" }, `${format.count(call.messages, "message")}, ${format.bytes(call.bytes)}, begun at ${format.time(call.start_ns)}, ${last}`),
      el("div", { class: "track" }, this.bar(parts, call.time_ns, call.time_ns)), this.legend(call.parts, call.time_ns),
    );
  }
}

function piece(time: number, all: number, background: string, text: string): HTMLElement {
  const share = time / Math.max(all, 1);
  return el("span", { style: `width:${100 * share}%;background:${background}`, title: `${format.percent(share)} ${format.time(time)} ${text}` });
}

// line is a name, a bar and a time.
function line(name: string, time: number, content: HTMLElement, click?: () => void): HTMLElement {
  return el(
    "div", click ? { class: "line choice", tabindex: 0, click, keydown: (e) => (e as KeyboardEvent).key === "Enter" && click() } : { class: "line" },
    el("span", { class: "name" }, name), el("div", { class: "track" }, content), el("span", { class: "figure" }, format.time(time)),
  );
}

// splitSection shows where the time of functions and of the longest calls went.
export function splitSection(data: Data, palette: Palette): HTMLElement {
  const bars = new Bars(data, palette);
  const timed = data.functions.filter((f) => f.calls > 0);
  const most = Math.max(1, ...timed.map((f) => f.time_ns));
  const functions = timed.map((f) => el("div", {}, line(`${f.name}, ${format.count(f.calls, "call")}`, f.time_ns, bars.bar(f.parts, f.time_ns, most)), bars.legend(f.parts, f.time_ns)));
  return section(
    "split", "Where the time went",
    "The time from the start of each call to its last byte, along its critical path. Each nanosecond has one cause. A link has one colour in all pictures of this page: full for queueing, striped for the other causes there; links that took little time are grey.", ...functions,
  );
}

// callsSection shows the longest calls of one function, or of all (-1), and the critical path of one of them.
export function callsSection(data: Data, palette: Palette): { element: HTMLElement; filter: (f: number) => void } {
  const bars = new Bars(data, palette);
  const list = el("div", { id: "calls-list" });
  const path = el("div", { id: "path" });
  const show = (f: number) => {
    const calls = data.calls.filter((c) => f < 0 || c.function === f).sort((a, b) => b.time_ns - a.time_ns).slice(0, longest);
    const most = Math.max(1, ...calls.map((c) => c.time_ns));
    list.replaceChildren(...calls.map((c) => line(callName(data, c), c.time_ns, bars.bar(c.parts, c.time_ns, most), () => path.replaceChildren(bars.criticalPath(c)))));
    path.replaceChildren(...calls.slice(0, 1).map((c) => bars.criticalPath(c)));
  };
  const element = section("calls", "The longest calls", "Click a call to see its critical path.", list, path);
  show(-1);
  return { element, filter: show };
}
