// SPDX-License-Identifier: Apache-2.0

import type { Palette } from "./colors";
import type { Bottleneck, Data } from "./data";
import { el } from "./dom";
import * as format from "./format";
import { rates } from "./rates";

const mostDown = 6; // periods in the list
// what is said of a link instead of the kind of a cause
const phrases: Record<string, string> = { window: "full windows and send buffers because of its queue", paused: "links that its full queue pauses" };

// Down is a time in which a port or link was down.
export interface Down {
  hop: number;
  begin: number; // ns
  end: number;
}

// downs are the times in which ports and links were down.
export const downs = (data: Data): Down[] => data.load.hops.flatMap((h, hop) => (h.down ?? []).map(([begin, end]) => ({ hop, begin, end })));

// bottleneckSection says what took most of the time, before all pictures, and what was down.
export function bottleneckSection(data: Data, palette: Palette): HTMLElement {
  const b = data.bottleneck;
  const lines = b ? about(data, b) : [];
  const all = downs(data);
  const off = all.slice(0, mostDown).map((d) => el("p", { class: "off" }, `${data.fabric.hops[d.hop].name} was down from ${format.period(d.begin, d.end)}.`));
  if (all.length > mostDown) {
    off.push(el("p", { class: "off" }, `Ports and links were down ${format.count(all.length - mostDown, "more time")}.`));
  }
  const color = b ? background(data, palette, b) : "var(--line)";
  const swatch = el("i", { class: "swatch", style: `background:${color}` });
  return el("section", { id: "bottleneck", style: `border-left-color:${color}` }, el("h2", {}, ...(b ? [swatch] : []), b?.text ?? "No call took time on the network"), ...lines.map((l) => el("p", {}, l)), ...off);
}

const portsAndLinks = (n: number): string => (n === 1 ? "one port or link" : `${n} ports and links`);

function background(data: Data, palette: Palette, b: Bottleneck): string {
  return b.link || b.links ? palette.link(b.link ?? "") : palette.cause(data.causes.findIndex((c) => c.kind === b.kind));
}

// about has the figures of a bottleneck.
function about(data: Data, b: Bottleneck): string[] {
  const kinds = new Map<string, number>();
  let window = 0;
  for (const p of data.functions.flatMap((f) => f.parts)) {
    const c = data.causes[p.cause];
    if (b.link && c.link === b.link) {
      kinds.set(c.kind, (kinds.get(c.kind) ?? 0) + p.time_ns);
    }
    window += c.kind === "window" && !c.link ? p.time_ns : 0;
  }
  const share = (ns: number) => format.percent(ns / Math.max(b.all_ns, 1));
  const lines: string[] = [];
  if (b.link && !b.alike) {
    lines.push(`Of the time of all calls: ${[...kinds].sort((x, y) => y[1] - x[1]).map(([kind, ns]) => `${phrases[kind] ?? kind} ${share(ns)}`).join(", ")}.`);
    const place = data.fabric.hops.findIndex((h) => h.name === b.link);
    if (place >= 0) {
      const hop = data.fabric.hops[place];
      const waited = Math.max(0, ...data.load.hops[place].queue);
      lines.push(`Its rate ${hop.changes ? "was" : "is"} ${rates(hop)}. It was busy for ${format.percent(hop.busy_ns / Math.max(data.span_ns, 1))} of ${format.time(data.span_ns)}; up to ${format.bytes(waited)} waited for it.`);
    }
  }
  if (!b.link || b.alike) {
    lines.push(...linksTogether(data, b.all_ns));
  }
  if (window > 0 && b.kind !== "window") {
    lines.push(`For ${share(window)} of the time of all calls senders waited for a full window or send buffer: messages that wait for a busy link fill it.`);
  }
  return lines;
}

// linksTogether says how much time all ports and links took, and which one took most.
function linksTogether(data: Data, all: number): string[] {
  const sums = new Map<string, number>();
  for (const p of data.functions.flatMap((f) => f.parts)) {
    const name = data.causes[p.cause].link;
    if (name) {
      sums.set(name, (sums.get(name) ?? 0) + p.time_ns);
    }
  }
  const [most] = [...sums].sort((a, b) => b[1] - a[1]);
  const share = (ns: number) => format.percent(ns / Math.max(all, 1));
  const together = [...sums.values()].reduce((a, b) => a + b, 0);
  return most ? [`Of the time of all calls: ${share(together)} on ${portsAndLinks(sums.size)}; the most, ${share(most[1])}, on ${most[0]}.`] : [];
}
