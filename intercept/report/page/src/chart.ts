// SPDX-License-Identifier: Apache-2.0

import type uPlot from "uplot";

// Colours of charts, as the page has them.
const style = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name);
export const axisColor = (): string => style("--text");
export const gridColor = (): string => style("--line");

// markChange marks a time at which links were changed, with what was changed.
export function markChange(u: uPlot, at: number, text: string): void {
  const { left, top, width, height } = u.bbox;
  const x = u.valToPos(at, "x", true);
  if (x < left || x > left + width) {
    return;
  }
  const right = x > left + width / 2;
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = axisColor();
  u.ctx.setLineDash([4, 4]);
  u.ctx.beginPath();
  u.ctx.moveTo(x, top);
  u.ctx.lineTo(x, top + height);
  u.ctx.stroke();
  u.ctx.textAlign = right ? "right" : "left";
  u.ctx.textBaseline = "top";
  u.ctx.fillText(text, x + (right ? -4 : 4), top + 4);
  u.ctx.restore();
}

// redrawn draws a chart in an element when the element has a width, and again when that or the page's colours change.
export function redrawn(place: HTMLElement, draw: (width: number) => void): void {
  let width = 0;
  const again = () => width > 0 && draw(width);
  new ResizeObserver(() => {
    if (place.clientWidth !== width) {
      width = place.clientWidth;
      again();
    }
  }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}
