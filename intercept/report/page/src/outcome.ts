// SPDX-License-Identifier: Apache-2.0

import type { Data, Outcome, Result, Row } from "./data";
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
  return el(
    "div", {}, el("h3", {}, data.outcomes.length > 1 && r.header ? `${data.jobs[o.job]}: ${head}` : head), verdict(r, r.reasons ?? []),
    ...(r.notes ?? r.header?.notes ?? []).map((x) => el("p", { class: "note" }, x)), ...(r.rows?.length ? [expected(r.rows)] : []),
  );
}

// verdicts are the verdicts of all jobs with their first reasons, for the head of the page.
export function verdicts(data: Data): HTMLElement[] {
  return data.outcomes.map((o) => {
    const reasons = o.result.reasons ?? [];
    const more = reasons.length > 1 ? [`${format.count(reasons.length - 1, "more reason")} below`] : [];
    const job = data.outcomes.length > 1 ? `${data.jobs[o.job]}: ` : "";
    return verdict(o.result, [...reasons.slice(0, 1).map((r) => job + r), ...more]);
  });
}

// verdict is a badge with the reasons beside it. Without a reason it says how near the times are to the expected ones.
function verdict(r: Result, reasons: string[]): HTMLElement {
  const off = (r.rows ?? []).map((row) => Math.abs(row.diff_percent ?? NaN)).filter((d) => !Number.isNaN(d));
  const most = Math.max(...off).toFixed(1);
  const near = off.length > 0 ? [most === "0.0" ? "The times are the expected ones." : `The times are at most ${most} % from the expected ones.`] : [];
  const lines = reasons.length > 0 ? reasons : near;
  return el("div", { class: "verdict" }, badge(r.verdict), el("div", {}, ...lines.map((x) => el("p", {}, x))));
}

function badge(text: string): HTMLElement {
  return el("strong", { class: `badge ${text === "VALID" ? "valid" : "invalid"}` }, text);
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
