// SPDX-License-Identifier: Apache-2.0

import * as colors from "./colors";
import type { Call, Data, Part } from "./data";
import { el, section } from "./dom";
import * as format from "./format";
import { callName } from "./names";

const longest = 20; // calls that are drawn

// bar draws the parts of a time side by side. Its width is that of the time in most.
function bar(data: Data, parts: Part[], all: number, most: number): HTMLElement {
  const known = parts.reduce((sum, p) => sum + p.time_ns, 0);
  const rest = all - known;
  const pieces = parts.filter((p) => p.time_ns > 0).map((p) => piece(p.time_ns, all, colors.cause(data.causes[p.cause].kind), data.causes[p.cause].text));
  if (rest > 0) {
    pieces.push(piece(rest, all, colors.cause(""), "smaller causes"));
  }
  return el("div", { class: "bar", style: `width:${(100 * all) / Math.max(most, 1)}%` }, ...pieces);
}

function piece(time: number, all: number, color: string, text: string): HTMLElement {
  const share = time / Math.max(all, 1);
  return el("span", { style: `width:${100 * share}%;background:${color}`, title: `${format.percent(share)} ${format.time(time)} ${text}` });
}

// line is a name, a bar and a time.
function line(name: string, time: number, content: HTMLElement, click?: () => void): HTMLElement {
  return el(
    "div", click ? { class: "line choice", tabindex: 0, click, keydown: (e) => (e as KeyboardEvent).key === "Enter" && click() } : { class: "line" },
    el("span", { class: "name" }, name), el("div", { class: "track" }, content), el("span", { class: "figure" }, format.time(time)),
  );
}

function legend(data: Data, parts: Part[], all: number): HTMLElement {
  const kept = parts.slice(0, 12);
  return el(
    "ul", { class: "legend" },
    ...kept.map((p) => {
      const { kind, text } = data.causes[p.cause];
      return el("li", {}, el("i", { style: `background:${colors.cause(kind)}` }), `${format.percent(p.time_ns / Math.max(all, 1))} ${text}`);
    }),
  );
}

// splitSection shows where the time of functions and of the longest calls went.
export function splitSection(data: Data): HTMLElement {
  const timed = data.functions.filter((f) => f.calls > 0);
  const most = Math.max(1, ...timed.map((f) => f.time_ns));
  const functions = timed.map((f) => el("div", {}, line(`${f.name}, ${format.count(f.calls, "call")}`, f.time_ns, bar(data, f.parts, f.time_ns, most)), legend(data, f.parts, f.time_ns)));
  return section(
    "split", "Where the time went",
    "The time from the begin of each call to its last byte, along its critical path. Each nanosecond has one cause.", ...functions,
  );
}

// callsSection shows the longest calls of one function, or of all (-1), and the critical path of one of them.
export function callsSection(data: Data): { element: HTMLElement; filter: (f: number) => void } {
  const list = el("div", { id: "calls-list" });
  const path = el("div", { id: "path" });
  const show = (f: number) => {
    const calls = data.calls.filter((c) => f < 0 || c.function === f).sort((a, b) => b.time_ns - a.time_ns).slice(0, longest);
    const most = Math.max(1, ...calls.map((c) => c.time_ns));
    list.replaceChildren(...calls.map((c) => line(callName(data, c), c.time_ns, bar(data, c.parts, c.time_ns, most), () => path.replaceChildren(criticalPath(data, c)))));
    path.replaceChildren(...calls.slice(0, 1).map((c) => criticalPath(data, c)));
  };
  const element = section("calls", "The longest calls", "Click a call to see its critical path.", list, path);
  show(-1);
  return { element, filter: show };
}

// criticalPath draws the causes of a call in the order of time, if the document has them.
function criticalPath(data: Data, call: Call): HTMLElement {
  const parts = call.path ?? call.parts;
  const order = call.path ? "from its begin to its last byte" : "the largest cause first; the order is only known of the longest calls";
  return el(
    "div", { class: "critical" },
    el("h3", {}, `${callName(data, call)}: ${format.time(call.time_ns)}, ${order}`),
    el("p", { class: "about" }, `${format.count(call.messages, "message")}, ${format.bytes(call.bytes)}, begun at ${format.time(call.start_ns)}, last byte at ${call.last_rank}`),
    el("div", { class: "track" }, bar(data, parts, call.time_ns, call.time_ns)), legend(data, call.parts, call.time_ns),
  );
}
