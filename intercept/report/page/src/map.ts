// SPDX-License-Identifier: Apache-2.0

import * as colors from "./colors";
import type { Drawing, Frame, Line, Vertex } from "./data";
import { el, svg } from "./dom";
import { placeLabels, type Label } from "./map-labels";

const beside = 3.5; // how far a direction of a link is from its middle
const mostArcs = 200; // links between NICs that are drawn
const leastScale = 0.75; // at which names can be read; a smaller picture is scrolled

// FabricMap draws a fabric. Each direction of a port or link has its own line, or its own half of a NIC's box in a rack.
export class FabricMap {
  readonly element: HTMLElement;
  private lines = new Map<number, SVGElement>();
  private bundles: { line: SVGPathElement; text: string; hops: number[] }[] = [];

  // labels are written beside their lines, if there is place for them.
  constructor(fabric: Drawing, private readonly hops: Line[], choose: (hop: number) => void, labels: Label[] = []) {
    const bend = !fabric.racks && hops.some((h) => isArc(fabric, h)) ? 60 : 0;
    const picture = svg("svg", {
      class: "map",
      viewBox: `0 0 ${fabric.width} ${fabric.height + bend}`,
      style: `max-width:${fabric.width}px;min-width:${leastScale * fabric.width}px`,
      role: "img",
      "aria-label": `fabric ${fabric.name}`,
    });
    fabric.racks?.forEach((r) => this.drawRack(picture, fabric, r));
    let arcs = 0;
    hops.forEach((hop, i) => {
      if (hop.from < 0 || (isArc(fabric, hop) && ++arcs > mostArcs)) {
        return;
      }
      const shape = fabric.racks && isPort(fabric, hop) ? half(fabric, hop) : svg("path", { d: path(fabric, hop), class: "hop" });
      shape.setAttribute("data-hop", hop.name);
      shape.addEventListener("click", () => choose(i));
      shape.append(svg("title", {}, hop.name));
      this.lines.set(i, shape);
      picture.append(shape);
    });
    fabric.vertices.filter((v) => v.switch || !fabric.racks).forEach((v) => picture.append(draw(v, fabric.switch_size)));
    picture.append(...placeLabels(fabric, hops, labels));
    this.element = el("div", { class: "scroll whole" }, picture);
  }

  // show colours each line by its load, from 0 to 1. A hop that is down is red and dashed.
  show(load: (hop: number) => number, down: (hop: number) => boolean, text: (hop: number) => string): void {
    for (const [i, line] of this.lines) {
      const share = load(i);
      const color = down(i) ? colors.down : colors.load(share);
      if (line.tagName === "rect") {
        line.style.fill = color;
      } else {
        line.style.stroke = color;
        line.style.strokeWidth = String(2 + 4 * share);
      }
      line.classList.toggle("down", down(i));
      line.querySelector("title")!.textContent = text(i);
    }
    for (const b of this.bundles) {
      const share = Math.max(0, ...b.hops.map(load));
      const off = b.hops.every(down);
      b.line.style.stroke = off ? colors.down : colors.load(share);
      b.line.style.strokeWidth = String(2 + 2 * share);
      b.line.classList.toggle("down", off);
      b.line.firstElementChild!.textContent = `${b.text}: the busiest port ${Math.round(100 * share)} %`;
    }
  }

  choose(hop: number): void {
    for (const [i, line] of this.lines) {
      line.classList.toggle("chosen", i === hop);
    }
  }

  // drawRack draws a rack, its nodes' names, and for each switch two lines for the ports of the rack that lead there.
  private drawRack(picture: SVGSVGElement, fabric: Drawing, rack: Frame): void {
    const nodes = new Set(rack.nodes.map((n) => n.node));
    const names = `${rack.nodes[0].name}${nodes.size > 1 ? ` to ${rack.nodes[nodes.size - 1].name}` : ""}`;
    const of = new Map<number, { sends: number[]; receives: number[] }>(rack.switches.map((s) => [s, { sends: [], receives: [] }]));
    this.hops.forEach((h, i) => {
      if (h.from >= 0 && isPort(fabric, h)) {
        const sends = !fabric.vertices[h.from].switch;
        const [nic, at] = sends ? [h.from, h.to] : [h.to, h.from];
        if (nodes.has(fabric.vertices[nic].node)) {
          of.get(at)?.[sends ? "sends" : "receives"].push(i);
        }
      }
    });
    const top = { x: rack.x + rack.width / 2, y: rack.y };
    for (const [s, { sends, receives }] of of) {
      const v = fabric.vertices[s];
      for (const [a, b, hops, text] of [[top, v, sends, `${names} to ${v.name}`], [v, top, receives, `${v.name} to ${names}`]] as const) {
        const line = svg("path", { d: straight(a, b), class: "bundle" }, svg("title", {}, text));
        this.bundles.push({ line, text, hops });
        picture.append(line);
      }
    }
    picture.append(
      svg("g", { class: "rack" }, svg("rect", { x: rack.x, y: rack.y, width: rack.width, height: rack.height, rx: 5 }),
        ...rack.nodes.map((n) => svg("text", { x: n.x, y: n.y + 4, class: "node" }, n.name))),
    );
  }
}

const isArc = (fabric: Drawing, hop: Line): boolean => hop.from >= 0 && !fabric.vertices[hop.from].switch && !fabric.vertices[hop.to].switch;
const isPort = (fabric: Drawing, hop: Line): boolean => fabric.vertices[hop.from].switch !== fabric.vertices[hop.to].switch;

// half is the upper half of a NIC's box, which sends, or the lower one, which receives.
function half(fabric: Drawing, hop: Line): SVGRectElement {
  const sends = !fabric.vertices[hop.from].switch;
  const { x, y } = fabric.vertices[sends ? hop.from : hop.to];
  const [width, height] = fabric.port;
  return svg("rect", { x: x - width / 2, y: sends ? y - height / 2 : y + 0.5, width, height: height / 2 - 0.5, class: "hop" });
}

interface Point {
  x: number;
  y: number;
}

// straight is a line beside the middle of the one from a to b.
function straight(a: Point, b: Point): string {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy) || 1;
  const x = (-dy / length) * beside;
  const y = (dx / length) * beside;
  return `M${a.x + x},${a.y + y} L${b.x + x},${b.y + y}`;
}

// path is a straight line, or an arc below two NICs, or beside two in racks.
function path(fabric: Drawing, hop: Line): string {
  const a = fabric.vertices[hop.from];
  const b = fabric.vertices[hop.to];
  if (isArc(fabric, hop) && fabric.racks) {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    // to the right of both, where no name is; one direction outside of the other
    const bulge = ((dy < 0 || (dy === 0 && dx < 0) ? 36 : 20) + Math.min(80, length / 4)) / (dy < 0 ? length : -length);
    return `M${a.x},${a.y} Q${(a.x + b.x) / 2 - dy * bulge},${(a.y + b.y) / 2 + dx * bulge} ${b.x},${b.y}`;
  }
  if (isArc(fabric, hop)) {
    const below = 12;
    const depth = 30 + (a.x < b.x ? 0 : 18) + Math.min(60, Math.abs(b.x - a.x) / 8);
    return `M${a.x},${a.y + below} Q${(a.x + b.x) / 2},${a.y + below + depth} ${b.x},${b.y + below}`;
  }
  return straight(a, b);
}

function draw(v: Vertex, [width, height]: [number, number]): SVGGElement {
  const shape = v.switch
    ? svg("rect", { x: v.x - width / 2, y: v.y - height / 2, width, height, rx: 5 })
    : svg("circle", { cx: v.x, cy: v.y, r: 12 });
  const name = v.switch
    ? svg("text", { x: v.x, y: v.y + 4 }, v.name)
    : svg("text", { x: v.x, y: v.y + 4, class: "nic" }, v.name.replace(/^node/, ""));
  return svg("g", { class: v.switch ? "switch" : "nic" }, shape, name, svg("title", {}, v.name));
}
