// SPDX-License-Identifier: Apache-2.0

// Colours of charts, as the page has them.
const style = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name);
export const axisColor = (): string => style("--text");
export const gridColor = (): string => style("--line");

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
