// SPDX-License-Identifier: Apache-2.0

import { el, section } from "./dom";
import { ask, type Param, type State } from "./live-data";

// ShapeForm changes links as `ddlemu shape` does.
export class ShapeForm {
  readonly element: HTMLElement;
  private readonly link = el("input", { id: "link", list: "links", placeholder: "all between nodes", size: 28 });
  private readonly links = el("datalist", { id: "links" });
  private readonly inputs: HTMLInputElement[];
  private readonly said = el("pre", { id: "said", "aria-live": "polite" });

  constructor(private readonly params: Param[], private readonly changed: () => void) {
    this.inputs = params.map((p) => el("input", { name: p.flag, title: p.usage, size: 12 }));
    const fields = params.map((p, i) => el("label", { title: p.usage }, `${p.label} `, this.inputs[i]));
    const button = (id: string, text: string, state: string) => el("button", { id, type: "button", click: () => void this.send(state) }, text);
    this.element = section(
      "shape", "Change links",
      "Fields that are empty stay as they are; they show how the chosen link is now. Names are as for ddlemu shape: A:B for both directions, A>B for one, leaf* for several.",
      el(
        "form", { submit: (e) => { e.preventDefault(); void this.send(""); } },
        el("div", { class: "controls" }, el("label", {}, "links ", this.link), this.links),
        el("div", { class: "controls" }, ...fields),
        el("div", { class: "controls" }, el("button", { id: "apply", type: "submit" }, "Change"), button("down", "Take down", "down"), button("up", "Bring up", "up")),
      ),
      this.said,
    );
  }

  // fabric offers the names of a fabric's links.
  fabric(s: State): void {
    this.links.replaceChildren(...s.hops.filter((h) => h.link).map((h) => el("option", { value: h.link })));
  }

  // choose puts the name of a link into the form, and shows how it is set.
  choose(s: State, hop: number): void {
    if (s.hops[hop].link) {
      this.link.value = s.hops[hop].link;
    }
    this.show(s, hop);
  }

  show(s: State, hop: number): void {
    this.inputs.forEach((input, i) => (input.placeholder = s.hops[hop].set[i]));
  }

  private async send(state: string): Promise<void> {
    const given = this.params.map((p, i) => [p.flag, this.inputs[i].value.trim()]).filter(([, value]) => value !== "");
    this.said.className = "";
    try {
      const { text } = await ask<{ text: string }>("api/shape", { link: this.link.value.trim(), set: Object.fromEntries(given), state });
      this.said.textContent = text;
      this.inputs.forEach((input) => (input.value = ""));
      this.changed();
    } catch (e) {
      this.said.className = "off";
      this.said.textContent = (e as Error).message;
    }
  }
}
