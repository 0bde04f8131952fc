// SPDX-License-Identifier: Apache-2.0

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { el, section, table } from "./dom";
import { ShapeForm } from "./form";
import * as format from "./format";
import { History } from "./history";
import { HopsView } from "./live-hops";
import { ask, type Page, type State } from "./live-data";

const pause = 1000; // ms between two looks
const shownEvents = 50;

// View is the page: it looks at the fabric again and again.
class View {
  private readonly title = el("h1", {}, "ddlemu");
  private readonly about = el("p", {});
  private readonly trouble = el("p", { id: "trouble", class: "note off", role: "alert", hidden: true });
  private readonly hops = el("div", {});
  private readonly jobs = el("div", { id: "jobs" });
  private readonly events = el("ol", { id: "events" });
  private readonly form: ShapeForm;
  private state?: State;
  private view?: HopsView;
  private history = new History();

  constructor(private readonly page: Page) {
    this.form = new ShapeForm(page.params, () => void this.look());
    document.body.append(
      el("header", {}, this.title, this.about, this.trouble), this.hops, this.form.element,
      section("about-jobs", "Jobs", "Messages and bytes that have arrived.", this.jobs),
      section("about-events", "Events", "What has happened to the fabric, the newest first. Times are real ones since it was brought up.", this.events),
    );
  }

  async run(): Promise<void> {
    await this.look();
    setTimeout(() => void this.run(), pause);
  }

  private async look(): Promise<void> {
    try {
      this.show(await ask<State>("api/state"));
      this.trouble.hidden = true;
    } catch (e) {
      this.trouble.hidden = false;
      this.trouble.textContent = (e as Error).message;
    }
  }

  private show(s: State): void {
    const old = this.state;
    this.state = s;
    if (!old || old.id !== s.id || old.hops.length !== s.hops.length) {
      this.begin(s, old?.id === s.id ? old.fabric.hops[this.view!.chosen].name : "");
    }
    this.history.add(s, performance.now() / 1000);
    this.view!.show(s, this.history);
    this.form.show(s, this.view!.chosen);
    this.showJobs(s);
    this.events.replaceChildren(...s.events.slice(-shownEvents).reverse().map((e) => el("li", {}, `${format.time(e.at_ns)}: ${e.text}`)));
    document.body.dataset.drawn = "yes"; // for tests
  }

  // begin shows another fabric, or one with other hops. If it has a hop of this name, that one stays chosen.
  private begin(s: State, chosen: string): void {
    this.title.textContent = document.title = s.name;
    this.about.textContent = `ddlemu ${this.page.version}; ${s.clock} clock, time scale ${s.time_scale}; all rates are those of the emulated network`;
    this.history = new History();
    this.view = new HopsView(s, this.page.params, (hop) => {
      this.view!.choose(hop);
      this.form.choose(this.state!, hop);
      this.view!.show(this.state!, this.history);
    });
    this.hops.replaceChildren(this.view.element);
    this.form.fabric(s);
    this.view.choose(Math.max(0, s.fabric.hops.findIndex((h) => h.name === chosen)));
  }

  private showJobs(s: State): void {
    const rows = s.jobs.map((j) => [
      String(j.number), j.running ? "runs" : "ended", String(j.joined), String(j.died), j.messages.toLocaleString("en"), format.bytes(j.bytes), j.reasons.join("; "),
    ]);
    this.jobs.replaceChildren(rows.length > 0 ? table(["job", "state", "ranks ", "died ", "messages ", "bytes ", "why it is INVALID"], rows) : el("p", {}, "No job has run."));
  }
}

void new View(JSON.parse(document.getElementById("data")!.textContent!) as Page).run();
