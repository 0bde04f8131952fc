// SPDX-License-Identifier: Apache-2.0

import { el } from "./dom";
import { ask, isTrunk, type Hop, type Param, type State } from "./live-data";

const mostNames = 500; // that the form offers

// ShapeForm changes links as `ddlemu shape` does.
export class ShapeForm {
  readonly element: HTMLElement;
  private readonly link = el("input", { id: "link", list: "links", placeholder: "all between nodes", input: () => this.again() });
  private readonly links = el("datalist", { id: "links" });
  private readonly inputs: HTMLInputElement[];
  private readonly buttons: HTMLButtonElement[];
  private readonly said = el("pre", { id: "said", "aria-live": "polite" });
  private readonly named = el("span", { class: "named" });
  private again = (): void => {};

  // changed is called after a change.
  constructor(private readonly params: Param[], private readonly changed: () => void) {
    this.inputs = params.map((p) => el("input", { name: p.flag, title: p.usage }));
    const fields = params.map((p, i) => el("label", { title: p.usage }, p.label, this.inputs[i]));
    const button = (id: string, text: string, state: string) => el("button", { id, type: "button", click: () => void this.send(state) }, text);
    this.buttons = [el("button", { id: "apply", type: "submit" }, "Change"), button("down", "Take down", "down"), button("up", "Bring up", "up")];
    // In a narrow window the form is one line until it is opened.
    const narrow = matchMedia("(max-width: 760px)");
    const box = el("details", { open: !narrow.matches });
    narrow.addEventListener("change", () => (box.open = !narrow.matches));
    box.append(
      el("summary", {}, el("h2", {}, "Change links"), this.named),
      el("p", { class: "about" }, "A:B is both directions, A>B one, A all of a node or switch, leaf* several. A field that is empty changes nothing; in grey it shows how these links are now."),
      el(
        "form", { submit: (e) => { e.preventDefault(); void this.send(""); } },
        el("div", { class: "controls" }, el("label", {}, "links ", this.link), this.links), el("div", { class: "fields" }, ...fields),
        el("div", { class: "controls" }, ...this.buttons),
      ),
      this.said,
    );
    this.element = el("section", { id: "shape" }, box);
  }

  // fabric offers the names of a fabric's nodes and links.
  fabric(s: State): void {
    const nodes = s.drawing.vertices.filter((v) => !v.switch).map((v) => v.name.replace(/\..*/, ""));
    const pairs = s.hops.filter((h) => h.link).map((h) => h.link.split(">").sort().join(":"));
    const names = [...new Set([...nodes, ...pairs])].slice(0, mostNames);
    this.links.replaceChildren(...names.map((value) => el("option", { value })));
  }

  // choose puts the name of a link into the form, or that of a port's NIC.
  choose(s: State, hop: number): void {
    const { link, from, to } = s.hops[hop];
    const nic = [from, to].map((v) => s.drawing.vertices[v]).find((v) => v && !v.switch);
    this.link.value = link || (nic?.name ?? "");
    this.show(s);
  }

  // show shows how the links are that the form names.
  show(s: State): void {
    this.again = () => this.show(s);
    this.named.textContent = this.link.value.trim();
    const hops = s.hops.filter((h) => h.link && isNamed(s, h, this.link.value.trim()));
    this.inputs.forEach((input, i) => {
      const values = new Set(hops.map((h) => h.set[i]));
      input.placeholder = values.size > 1 ? "different" : ([...values][0] ?? "");
    });
  }

  private async send(state: string): Promise<void> {
    const given = this.params.map((p, i) => [p.flag, this.inputs[i].value.trim()]).filter(([, value]) => value !== "");
    this.buttons.forEach((b) => (b.disabled = true));
    this.inputs.forEach((input) => input.removeAttribute("aria-invalid"));
    try {
      const { text } = await ask<{ text: string }>("api/shape", { link: this.link.value.trim(), set: Object.fromEntries(given), state });
      this.say(text, "");
      this.inputs.forEach((input) => (input.value = ""));
      this.changed();
    } catch (e) {
      this.refused((e as Error).message);
    }
    this.buttons.forEach((b) => (b.disabled = false));
  }

  // refused shows an error, at the field whose flag it begins with.
  private refused(message: string): void {
    const flag = /^--(\w+): /.exec(message);
    const place = this.params.findIndex((p) => p.flag === flag?.[1]);
    if (place >= 0) {
      this.inputs[place].setAttribute("aria-invalid", "true");
      message = `${this.params[place].label}: ${message.slice(flag![0].length)}`;
    }
    this.say(message, "off");
  }

  private say(text: string, look: string): void {
    this.said.className = look;
    this.said.textContent = text;
  }
}

// isNamed reports whether a text without stars names a link. Without a text, all links between nodes are named.
function isNamed(s: State, hop: Hop, text: string): boolean {
  const [from, to] = hop.link.split(">");
  const [a, b] = text.split(/[:>]/);
  const is = (end: string, name: string) => end === name || end.startsWith(`${name}.`);
  if (text === "") {
    return !isTrunk(s, hop);
  }
  if (b === undefined) {
    return is(from, a) || is(to, a);
  }
  return (is(from, a) && is(to, b)) || (!text.includes(">") && is(from, b) && is(to, a));
}
