// SPDX-License-Identifier: Apache-2.0

import type { Call, Data } from "./data";

// job is the name of a job, if there are several.
const job = (data: Data, place: number): string => (data.jobs.length > 1 ? ` of ${data.jobs[place]}` : "");

export const callName = (data: Data, c: Call): string => `${data.functions[c.function].name} #${c.sequence}${job(data, c.job)}`;
export const rankName = (data: Data, place: number): string => `rank ${data.ranks[place].rank}${job(data, data.ranks[place].job)}`;
