// SPDX-License-Identifier: Apache-2.0

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { bottleneckSection } from "./bottleneck";
import { Palette } from "./colors";
import type { Data } from "./data";
import { card, el, select } from "./dom";
import * as format from "./format";
import { loadSection } from "./load";
import { messagesSection } from "./messages";
import { outcomeSection, verdicts } from "./outcome";
import { callsSection, splitSection } from "./split";
import { trafficSection } from "./traffic";
import { upgradesSection } from "./upgrades";

function header(data: Data): HTMLElement {
  const clock = data.clock === "virtual" ? "virtual clock" : `${data.clock} clock, time scale ${data.time_scale}`;
  return el(
    "header", {}, el("h1", {}, `${data.fabric.name}: ${data.jobs.join(", ")}`), ...verdicts(data),
    el("p", {}, `ddlemu ${data.version}; ${clock}; all times are times of the emulated network`), ...data.notes.map((n) => el("p", { class: "note" }, n)),
  );
}

function summary(data: Data): HTMLElement {
  const sum = (value: (f: Data["functions"][number]) => number) => data.functions.reduce((all, f) => all + value(f), 0);
  const busiest = data.fabric.hops.reduce((a, b) => (b.busy_ns > a.busy_ns ? b : a), data.fabric.hops[0]);
  const share = busiest ? busiest.busy_ns / Math.max(data.span_ns, 1) : 0;
  return el(
    "div", { class: "cards" }, card(format.time(data.span_ns), "recorded"), card(data.all_calls.toLocaleString("en"), "calls"),
    card(data.messages.all.toLocaleString("en"), "messages"), card(format.bytes(sum((f) => f.bytes)), "over the network"),
    card(busiest ? format.percent(share) : "none", busiest ? `busy: ${busiest.name}` : "load"),
  );
}

function start(): void {
  const data = JSON.parse(document.getElementById("data")!.textContent!) as Data;
  document.title = `${data.fabric.name}: ${data.jobs.join(", ")}`;
  const palette = new Palette(data);
  const calls = callsSection(data, palette);
  const traffic = trafficSection(data);
  const messages = messagesSection(data);
  const functions = select("function", "calls of", ["all functions", ...data.functions.map((f) => f.name)], (i) =>
    [calls, traffic, messages].forEach((part) => part.filter(i - 1)),
  );
  document.body.append(
    header(data), bottleneckSection(data, palette), summary(data), splitSection(data, palette), upgradesSection(data), loadSection(data, palette), el("div", { class: "controls sticky" }, functions),
    calls.element, traffic.element, messages.element, outcomeSection(data),
  );
  document.body.dataset.drawn = "yes"; // for tests
}

start();
