// SPDX-License-Identifier: Apache-2.0

import * as colors from "./colors";
import type { Drawing, Line, Vertex } from "./data";
import { el, svg } from "./dom";

const beside = 3.5; // how far a direction of a link is from its middle
const mostArcs = 200; // links between NICs that are drawn
const wide = 1180; // px; a wider fabric is drawn smaller, unless the reader wants all of it

// FabricMap draws a fabric. Each direction of a port or link has its own line.
export class FabricMap {
  readonly element: HTMLElement;
  private lines = new Map<number, SVGPathElement>();

  constructor(fabric: Drawing, hops: Line[], choose: (hop: number) => void) {
    const bend = hops.some((h) => isArc(fabric, h)) ? 60 : 0;
    const picture = svg("svg", {
      class: "map",
      viewBox: `0 0 ${fabric.width} ${fabric.height + bend}`,
      style: `max-width:${Math.max(fabric.width, 320)}px`,
      role: "img",
      "aria-label": `fabric ${fabric.name}`,
    });
    let arcs = 0;
    hops.forEach((hop, i) => {
      if (hop.from < 0 || (isArc(fabric, hop) && ++arcs > mostArcs)) {
        return;
      }
      const line = svg("path", { d: path(fabric, hop), class: "hop", "data-hop": hop.name, click: () => choose(i) }, svg("title", {}, hop.name));
      this.lines.set(i, line);
      picture.append(line);
    });
    fabric.vertices.forEach((v) => picture.append(draw(v)));
    this.element = el("div", {}, ...(fabric.width > wide ? [fullSize(picture, fabric.width)] : []), el("div", { class: "scroll" }, picture));
  }

  // show colours each line by its load, from 0 to 1. A hop that is down is dashed.
  show(load: (hop: number) => number, down: (hop: number) => boolean, text: (hop: number) => string): void {
    for (const [i, line] of this.lines) {
      const share = load(i);
      line.style.stroke = colors.load(share);
      line.style.strokeWidth = String(2 + 4 * share);
      line.classList.toggle("down", down(i));
      line.firstElementChild!.textContent = text(i);
    }
  }

  choose(hop: number): void {
    for (const [i, line] of this.lines) {
      line.classList.toggle("chosen", i === hop);
    }
  }
}

// fullSize is a switch between all of a wide picture and a part of it in its own size.
function fullSize(picture: SVGSVGElement, width: number): HTMLElement {
  const box = el("input", { type: "checkbox", id: "full-size", change: () => (picture.style.minWidth = box.checked ? `${width}px` : "") });
  return el("label", {}, box, " full size");
}

function isArc(fabric: Drawing, hop: Line): boolean {
  return hop.from >= 0 && !fabric.vertices[hop.from].switch && !fabric.vertices[hop.to].switch;
}

// path is a straight line beside the middle, or an arc below two NICs.
function path(fabric: Drawing, hop: Line): string {
  const a = fabric.vertices[hop.from];
  const b = fabric.vertices[hop.to];
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  if (isArc(fabric, hop)) {
    const depth = 30 + (a.x < b.x ? 0 : 18) + Math.min(60, Math.abs(dx) / 8);
    return `M${a.x},${a.y + 12} Q${(a.x + b.x) / 2},${a.y + 12 + depth} ${b.x},${b.y + 12}`;
  }
  const length = Math.hypot(dx, dy) || 1;
  const x = (-dy / length) * beside;
  const y = (dx / length) * beside;
  return `M${a.x + x},${a.y + y} L${b.x + x},${b.y + y}`;
}

function draw(v: Vertex): SVGGElement {
  const shape = v.switch
    ? svg("rect", { x: v.x - 38, y: v.y - 15, width: 76, height: 30, rx: 5 })
    : svg("circle", { cx: v.x, cy: v.y, r: 12 });
  const name = v.switch
    ? svg("text", { x: v.x, y: v.y + 4 }, v.name)
    : svg("text", { x: v.x, y: v.y + 4, class: "nic" }, v.name.replace(/^node/, ""));
  return svg("g", { class: v.switch ? "switch" : "nic" }, shape, name, svg("title", {}, v.name));
}
