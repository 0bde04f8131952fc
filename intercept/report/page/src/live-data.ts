// SPDX-License-Identifier: Apache-2.0

// The documents of package serve in Go, which says what each field means.

import type { Fabric } from "./data";

export interface Page {
  version: string;
  params: Param[];
}

export interface Param {
  flag: string;
  label: string;
  usage: string;
}

export interface State {
  format: string;
  id: string;
  name: string;
  fabric: Fabric;
  clock: string;
  time_scale: number;
  now_ns: number;
  hops: Hop[];
  jobs: Job[];
  events: { at_ns: number; text: string }[];
}

export interface Hop {
  link: string;
  set: string[];
  bytes: number;
  busy_ns: number;
  drops: number;
  ecn_marked: number;
  paused_ns: number;
  changed: boolean;
}

export interface Job {
  number: number;
  running: boolean;
  joined: number;
  left: number;
  died: number;
  messages: number;
  bytes: number;
  reasons: string[];
}

export interface Change {
  link: string;
  set: Record<string, string>;
  state: string;
}

// ask gets a document from the server. An error has the server's words.
export async function ask<T>(path: string, body?: Change): Promise<T> {
  const init = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, init).catch(() => {
    throw new Error("the server does not answer: is `ddlemu serve` still running?");
  });
  const text = await answer.text();
  if (!answer.ok) {
    throw new Error(answer.headers.get("Content-Type") === "application/json" ? (JSON.parse(text) as { error: string }).error : text);
  }
  return JSON.parse(text) as T;
}
