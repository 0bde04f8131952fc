// SPDX-License-Identifier: Apache-2.0

// Colours of charts, as the page has them.
const style = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name);
export const axisColor = (): string => style("--text");
export const gridColor = (): string => style("--line");
