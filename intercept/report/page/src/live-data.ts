// SPDX-License-Identifier: Apache-2.0

// The documents of package serve in Go, which says what each field means.

import type { Drawing, Line } from "./data";

export interface Page {
  version: string;
  params: Param[];
  counters: Counter[];
}

// Counter is a counter that each hop has, by this name. It has a column if it has a label.
export interface Counter {
  name: string;
  label: string;
  help: string;
  time: boolean; // in ns
}

export interface Param {
  flag: string;
  label: string;
  usage: string;
}

export interface State {
  format: string;
  id: string;
  fabric: string;
  clock: string;
  time_scale: number;
  clock_ns: number;
  drawing: Drawing;
  hops: Hop[];
  jobs: Job[];
  events: { at_ns: number; text: string }[];
}

export interface Hop extends Line {
  link: string;
  set: string[];
  changed: boolean;
  bytes: number;
  busy_ns: number;
  drops: number;
}

// Series is what one hop did since the start of the last job, in parts of the time of the network.
export interface Series {
  id: string;
  hop: string;
  job: number;
  running: boolean;
  whole: boolean;
  at_ns: number[];
  busy: number[];
  bps: number[];
}

// counted is the value of a counter of a hop.
export const counted = (hop: Hop, c: Counter): number => (hop as unknown as Record<string, number>)[c.name];

export interface Job {
  job: number;
  running: boolean;
  joined: number;
  left: number;
  died: number;
  stopped: number;
  messages: number;
  bytes: number;
  reasons: string[];
}

export interface Change {
  link: string;
  set: Record<string, string>;
  state: string;
}

const patience = 10_000; // ms

// ask gets a document from the server. An error has the server's words.
export async function ask<T>(path: string, body?: Change): Promise<T> {
  const post = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const [answer, text] = await get(path, { ...post, signal: AbortSignal.timeout(patience) }).catch(() => {
    throw new Error("the server does not answer: is `ddlemu serve` still running?");
  });
  if (!answer.ok) {
    throw new Error(answer.headers.get("Content-Type") === "application/json" ? (JSON.parse(text) as { error: string }).error : text);
  }
  return JSON.parse(text) as T;
}

async function get(path: string, init: RequestInit): Promise<[Response, string]> {
  const answer = await fetch(path, init);
  return [answer, await answer.text()];
}

// isTrunk reports whether a hop is a link between switches.
export function isTrunk(s: State, hop: Hop): boolean {
  return hop.from >= 0 && s.drawing.vertices[hop.from].switch && s.drawing.vertices[hop.to].switch;
}
