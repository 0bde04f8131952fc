// SPDX-License-Identifier: Apache-2.0

// The document that the page shows: package report in Go makes it and says what each field means.

export interface Data {
  format: string;
  version: string;
  jobs: string[];
  clock: string;
  time_scale: number;
  span_ns: number;
  notes: string[];
  outcomes: Outcome[];
  fabric: Fabric;
  changes: Change[];
  ranks: Rank[];
  functions: Func[];
  causes: Cause[];
  upgrades: Upgrades;
  bottleneck?: Bottleneck;
  calls: Call[];
  all_calls: number;
  load: Load;
  messages: Messages;
}

export interface Outcome {
  job: number;
  result: Result;
}

// Result is what `ddlemu bench --json` prints. That of `ddlemu run` has no header and no rows.
export interface Result {
  header?: { collective: string; nccl: string; ranks: number; nodes: number; notes: string[] };
  rows?: Row[];
  verdict: string;
  reasons: string[] | null;
  notes?: string[] | null;
}

export interface Row {
  size: number;
  type: string;
  redop: string;
  inplace: boolean;
  time_us: number;
  expected_us: number | null;
  diff_percent: number | null;
  expected_spread_percent: number | null;
  busbw_gbs: number;
  algo: string | null;
  proto: string | null;
}

export interface Drawing {
  name: string;
  width: number;
  height: number;
  vertices: Vertex[];
  racks?: Frame[];
  port: [number, number];
  switch_size: [number, number];
}

export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
  switches: number[];
  nodes: { node: number; name: string; x: number; y: number }[];
}

export interface Fabric extends Drawing {
  hops: Hop[];
}

export interface Vertex {
  name: string;
  switch: boolean;
  node: number;
  x: number;
  y: number;
}

export interface Line {
  name: string;
  from: number;
  to: number;
  bandwidth_bps: number;
  latency_ns: number;
  loss: boolean;
  down: boolean;
}

export interface Hop extends Line {
  bytes: number;
  busy_ns: number;
  packets_sent_again: number;
  changes?: HopChange[];
}

export interface HopChange {
  time_ns: number;
  what: string;
  bandwidth_bps: number;
  latency_ns: number;
  loss: boolean;
  down: boolean;
}

export interface Change {
  time_ns: number;
  text: string;
  hops: number[];
}

export interface Rank {
  job: number;
  rank: number;
  node: number;
}

export interface Func {
  name: string;
  calls: number;
  time_ns: number;
  messages: number;
  bytes: number;
  parts: Part[];
  traffic: Pair[];
  sizes: SizeClass[];
}

export interface Pair {
  from: number;
  to: number;
  messages: number;
  bytes: number;
}

export interface SizeClass {
  most: number;
  messages: number;
  bytes: number;
}

export interface Cause {
  kind: string;
  text: string;
  link?: string;
}

export interface Bottleneck {
  text: string;
  link?: string;
  alike?: string[];
  kind?: string;
  links?: number;
  time_ns: number;
  all_ns: number;
}

export interface Part {
  cause: number;
  time_ns: number;
}

export interface Call {
  function: number;
  sequence: number;
  job: number;
  start_ns: number;
  time_ns: number;
  ended: boolean;
  bytes: number;
  messages: number;
  last_rank: string;
  parts: Part[];
  path?: Part[];
}

export interface Upgrades {
  advice?: string;
  notes: string[];
  list: Upgrade[];
}

export interface Upgrade {
  name: string;
  kind: string;
  links: string[];
  advised: boolean;
  before_ns: number;
  after_ns: number;
  gain: number;
  after_during_ns: number;
  gain_during: number;
  difference: string;
}

export interface Load {
  window_ns: number;
  hops: HopLoads[];
}

export interface HopLoads {
  busy: number[];
  queue: number[];
  down?: [number, number][];
}

export interface Messages {
  all: number;
  arrived: number;
  call: number[];
  from: number[];
  to: number[];
  bytes: number[];
  posted_ns: number[];
  transfer_ns: number[];
  waited_ns: number[];
  packets_sent_again: number[];
}
