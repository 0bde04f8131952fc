// SPDX-License-Identifier: Apache-2.0

import type { Data, Outcome, Row } from "./data";
import { el, section, table } from "./dom";
import * as format from "./format";

const off = 5; // percent, as bench marks a row

// outcomeSection shows the verdict of each job and, for bench, what the model expected beside what was measured.
export function outcomeSection(data: Data): HTMLElement {
  const parts = data.outcomes.map((o) => one(data, o));
  if (parts.length === 0) {
    parts.push(el("p", {}, "The trace has no verdict: the job has not ended, was killed, or was recorded without `ddlemu bench` and `ddlemu run`."));
  }
  return section("outcome", "Verdict", "VALID means that this host really carried what the fabric says.", ...parts);
}

function one(data: Data, o: Outcome): HTMLElement {
  const r = o.result;
  const head = r.header ? `${r.header.collective}, NCCL ${r.header.nccl}, ${format.count(r.header.ranks, "rank")} on ${format.count(r.header.nodes, "node")}` : data.jobs[o.job];
  const reasons = [...(r.reasons ?? []), ...(r.notes ?? r.header?.notes ?? [])];
  return el(
    "div", {}, el("h3", {}, data.outcomes.length > 1 && r.header ? `${data.jobs[o.job]}: ${head}` : head, " ", badge(r.verdict)),
    ...reasons.map((x) => el("p", { class: "note" }, x)), ...(r.rows?.length ? [expected(r.rows)] : []),
  );
}

export function badge(verdict: string): HTMLElement {
  return el("strong", { class: `badge ${verdict === "VALID" ? "valid" : "invalid"}` }, verdict);
}

function expected(rows: Row[]): HTMLElement {
  return table(
    ["size ", "type", "operation", "in place", "NCCL's choice", "measured ", "expected ", "difference ", "bus bandwidth "],
    rows.map((r) => [
      format.bytes(r.size), r.type, r.redop, r.inplace ? "yes" : "no", `${r.algo ?? "?"} ${r.proto ?? ""}`, `${r.time_us.toFixed(2)} us`,
      r.expected_us === null ? "not known" : `${r.expected_us.toFixed(2)} us`, difference(r), `${r.busbw_gbs.toFixed(2)} GB/s`,
    ]),
  );
}

function difference(r: Row): HTMLElement | string {
  if (r.diff_percent === null) {
    return "";
  }
  const far = Math.abs(r.diff_percent) > off + (r.expected_spread_percent ?? 0);
  return el("span", { class: far ? "off" : "" }, `${r.diff_percent > 0 ? "+" : ""}${r.diff_percent.toFixed(1)} %`);
}
