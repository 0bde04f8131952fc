// SPDX-License-Identifier: Apache-2.0

import "uplot/dist/uPlot.min.css";
import "./page.css";
import type { Data } from "./data";
import { card, el, select } from "./dom";
import * as format from "./format";
import { loadSection } from "./load";
import { messagesSection } from "./messages";
import { badge, outcomeSection } from "./outcome";
import { callsSection, splitSection } from "./split";
import { trafficSection } from "./traffic";
import { upgradesSection } from "./upgrades";

function header(data: Data): HTMLElement {
  const clock = data.clock === "virtual" ? "virtual clock" : `${data.clock} clock, time scale ${data.time_scale}`;
  return el(
    "header", {}, el("h1", {}, `${data.fabric.name}: ${data.jobs.join(", ")}`, " ", ...data.outcomes.map((o) => badge(o.result.verdict))),
    el("p", {}, `ddlemu ${data.version}; ${clock}; all times are those of the emulated network`), ...data.notes.map((n) => el("p", { class: "note" }, n)),
  );
}

function summary(data: Data): HTMLElement {
  const sum = (value: (f: Data["functions"][number]) => number) => data.functions.reduce((all, f) => all + value(f), 0);
  const busiest = data.fabric.hops.reduce((a, b) => (b.busy_ns > a.busy_ns ? b : a), data.fabric.hops[0]);
  const share = busiest ? busiest.busy_ns / Math.max(data.span_ns, 1) : 0;
  return el(
    "div", { class: "cards" }, card(format.time(data.span_ns), "recorded"), card(data.all_calls.toLocaleString("en"), "calls"),
    card(data.messages.all.toLocaleString("en"), "messages"), card(format.bytes(sum((f) => f.bytes)), "over the network"),
    card(busiest ? format.percent(share) : "none", busiest ? `busy: ${busiest.name}` : "load"), card(...largestCause(data)),
  );
}

// largestCause is the cause of most of the time of all calls.
function largestCause(data: Data): [string, string] {
  const sums = new Map<number, number>();
  let all = 0;
  for (const p of data.functions.flatMap((f) => f.parts)) {
    sums.set(p.cause, (sums.get(p.cause) ?? 0) + p.time_ns);
    all += p.time_ns;
  }
  const [cause, time] = [...sums].reduce((a, b) => (b[1] > a[1] ? b : a), [-1, 0]);
  return cause < 0 ? ["none", "cause"] : [format.percent(time / all), `of all calls: ${data.causes[cause].text}`];
}

function start(): void {
  const data = JSON.parse(document.getElementById("data")!.textContent!) as Data;
  document.title = `${data.fabric.name}: ${data.jobs.join(", ")}`;
  const calls = callsSection(data);
  const traffic = trafficSection(data);
  const messages = messagesSection(data);
  const functions = select("function", "calls of", ["all functions", ...data.functions.map((f) => f.name)], (i) =>
    [calls, traffic, messages].forEach((part) => part.filter(i - 1)),
  );
  document.body.append(
    header(data), summary(data), loadSection(data), splitSection(data), upgradesSection(data), el("div", { class: "controls sticky" }, functions),
    calls.element, traffic.element, messages.element, outcomeSection(data),
  );
  document.body.dataset.drawn = "yes"; // for tests
}

start();
