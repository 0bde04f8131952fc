// SPDX-License-Identifier: Apache-2.0

import type { Data, Upgrade } from "./data";
import { el, section, table } from "./dom";
import * as format from "./format";

const upgradeKinds = ["cable", "nic", "group", "tier", "all"]; // of these the number of cables is a cost

// upgradesSection shows what faster links would bring, and which of them to choose.
export function upgradesSection(data: Data): HTMLElement {
  const { advice, list, notes } = data.upgrades;
  if (list.length === 0) {
    return section("upgrades", "What to upgrade", "No call has ended, so nothing says how long one takes.");
  }
  const now = format.time(list[list.length - 1].before_ns);
  const about = `From the start of the first call to the end of the last one it took ${now}. If links had twice the rate, both directions of a cable:`;
  return section(
    "upgrades", "What to upgrade", about, ...(advice ? [el("p", { class: "advice" }, `Advice: ${advice}`)] : []), rows(list),
    ...notes.map((n) => el("p", { class: "about" }, n)),
  );
}

function rows(list: Upgrade[]): HTMLElement {
  return table(
    ["what if", "cables ", "then ", "difference "],
    list.map((u) => [
      u.advised ? el("b", { title: u.links.join(", ") }, u.name) : el("span", { title: u.links.join(", ") }, u.name),
      upgradeKinds.includes(u.kind) ? u.links.length.toLocaleString("en") : "", times(u), u.difference,
    ]),
  );
}

// times is the time of all calls after a change, or the two times between which it is.
function times(u: Upgrade): string {
  const ends = [u.after_ns, u.after_during_ns].map(format.time);
  return u.difference.includes(" to ") ? ends.join(" to ") : ends[0];
}
