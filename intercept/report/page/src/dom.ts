// SPDX-License-Identifier: Apache-2.0

// Elements are made without HTML text, so that a name in a trace is never read as HTML.

type Attributes = Record<string, string | number | boolean | ((e: Event) => void)>;
type Child = Node | string;

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children);
  return element;
}

// el makes an HTML element. An attribute that is a function listens to the event of that name.
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

// svg makes an SVG element.
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// section is a part of the page with a headline.
export function section(id: string, title: string, about: string, ...children: Child[]): HTMLElement {
  return el("section", { id }, el("h2", {}, title), el("p", { class: "about" }, about), ...children);
}

// table makes a table. Columns whose headline ends with a blank are figures, to the right.
export function table(heads: string[], rows: Child[][], click?: (row: number) => void): HTMLElement {
  const side = (i: number) => (heads[i].endsWith(" ") ? "figure" : "");
  const body = rows.map((row, r) =>
    el(
      "tr",
      click ? { class: "choice", tabindex: 0, click: () => click(r), keydown: (e) => (e as KeyboardEvent).key === "Enter" && click(r) } : {},
      ...row.map((cell, i) => el("td", { class: side(i) }, cell)),
    ),
  );
  return el(
    "div",
    { class: "scroll" },
    el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h, i) => el("th", { class: side(i) }, h.trim())))), el("tbody", {}, ...body)),
  );
}

// card is a figure with its name.
export const card = (figure: string, name: string): HTMLElement => el("div", { class: "card" }, el("b", {}, figure), el("span", {}, name));

// select makes a choice. values and names have the same length.
export function select(id: string, label: string, names: string[], change: (place: number) => void): HTMLElement {
  const choice = el("select", { id, change: () => change(choice.selectedIndex) }, ...names.map((n) => el("option", {}, n)));
  return el("label", {}, label, " ", choice);
}
