// SPDX-License-Identifier: Apache-2.0

import "uplot/dist/uPlot.min.css";
import "./page.css";
import "./live.css";
import { card, el, section, table } from "./dom";
import { ShapeForm } from "./form";
import * as format from "./format";
import { History } from "./history";
import { ask, type Page, type Series, type State } from "./live-data";
import { HopsView } from "./live-hops";

const documentFormat = "ddlemu.live/2";
const pause = 1000; // ms between two looks
const shownEvents = 50;
const noSeries: Series = { id: "", hop: "", job: -1, running: false, whole: false, at_ns: [], busy: [], bps: [] };

// View is the page: it looks at the fabric again and again.
class View {
  private readonly title = el("h1", {}, "ddlemu");
  private readonly about = el("p", {});
  private readonly trouble = el("p", { id: "trouble", class: "note off", role: "alert", hidden: true });
  private readonly main = el("main", { hidden: true });
  private readonly figures = el("div", { class: "cards" });
  private readonly jobs = el("div", { id: "jobs" });
  private readonly events = el("ol", { id: "events" });
  private readonly form: ShapeForm;
  private readonly hops: HopsView;
  private state?: State;
  private history = new History();
  private chosen = 0; // hop
  private follows = true; // the reader has chosen none: the busiest one is

  constructor(private readonly page: Page) {
    this.form = new ShapeForm(page.params, () => void this.look());
    this.hops = new HopsView(page, (hop) => this.choose(hop));
    this.main.append(
      this.figures, this.hops.element, this.form.element, this.hops.list,
      section("about-jobs", "Jobs", "Those that run, and the last ones that have ended. Messages and bytes are those that have arrived. The command of a job says at its end whether it was VALID.", this.jobs),
      section("about-events", "Events", "What happened to the fabric, the newest first, in real time since it was brought up.", this.events),
    );
    document.body.append(el("header", {}, this.title, this.about, this.trouble), this.main);
  }

  async run(): Promise<void> {
    await this.look();
    setTimeout(() => void this.run(), pause);
  }

  private async look(): Promise<void> {
    try {
      const s = await ask<State>("api/state");
      if (s.format !== documentFormat) {
        throw new Error("the server is of another version of ddlemu: reload this page");
      }
      await this.show(s);
      this.say("");
    } catch (e) {
      this.say((e as Error).message);
    }
    document.body.dataset.drawn = "yes"; // for tests
  }

  // say shows why the page has no news. What it shows then is old.
  private say(trouble: string): void {
    this.trouble.hidden = trouble === "";
    this.trouble.textContent = `${trouble}. The page asks again every second.`;
    this.main.classList.toggle("old", trouble !== "");
    document.title = (trouble === "" ? "" : "(no news) ") + (this.state?.fabric ?? "ddlemu");
  }

  private async show(s: State): Promise<void> {
    const old = this.state;
    this.state = s;
    if (old?.id !== s.id) {
      this.begin(s);
    } else if (!hasSameLines(old, s)) {
      this.regroup(old, s);
    }
    this.history.add(s);
    this.form.show(s);
    this.figures.replaceChildren(...figures(s, this.history));
    this.showJobs(s);
    this.events.replaceChildren(...s.events.slice(-shownEvents).reverse().map((e) => el("li", {}, `${format.since(e.at_ns)}: ${e.text}`)));
    await this.draw();
  }

  // draw shows the hops, with the history of the chosen one. It was another one, or of another fabric, if the reader has
  // chosen while the server answered.
  private async draw(): Promise<void> {
    const s = this.state!;
    const wanted = this.follows ? "" : s.hops[this.chosen].name;
    // A fabric that was just brought up has no history yet. If the server is gone, the next look says so.
    const series = await ask<Series>(`api/history?hop=${encodeURIComponent(wanted)}`).catch(() => noSeries);
    if (this.state !== s || wanted !== (this.follows ? "" : s.hops[this.chosen].name)) {
      return;
    }
    if (this.follows) {
      this.chosen = Math.max(0, s.hops.findIndex((h) => h.name === series.hop));
    }
    const known = series.id === s.id ? series : { ...noSeries, id: s.id };
    this.hops.show(s, this.history, this.chosen, { ...known, hop: s.hops[this.chosen].name });
  }

  // begin shows another fabric.
  private begin(s: State): void {
    this.title.textContent = s.fabric;
    this.about.textContent = `ddlemu ${this.page.version}; ${s.clock} clock, time scale ${s.time_scale}; rates are those of the emulated network`;
    this.history = new History();
    this.chosen = 0;
    this.follows = true;
    this.main.hidden = false; // the chart needs a width
    this.hops.begin(s);
    this.form.fabric(s);
  }

  // regroup shows the same fabric with other hops, or with other lines for them.
  private regroup(old: State, s: State): void {
    const places = new Map(old.hops.map((h, i) => [h.name, i]));
    this.history.regroup(s.hops.map((h) => places.get(h.name) ?? -1));
    this.chosen = Math.max(0, s.hops.findIndex((h) => h.name === old.hops[this.chosen].name));
    this.hops.fabric(s);
    this.form.fabric(s);
  }

  private choose(hop: number): void {
    this.chosen = hop;
    this.follows = false;
    this.form.choose(this.state!, hop);
    void this.draw();
  }

  private showJobs(s: State): void {
    const rows = s.jobs.map((j) => [
      String(j.job), j.running ? "runs" : "has ended", String(j.joined), String(j.left), String(j.died), String(j.stopped), j.messages.toLocaleString("en"), format.bytes(j.bytes), j.reasons.join("; "),
    ]);
    const heads = ["job", "state", "joined ", "left ", "died ", "stopped ", "messages ", "bytes ", "reasons why it is not VALID so far"];
    this.jobs.replaceChildren(rows.length > 0 ? table(heads, rows.reverse()) : el("p", {}, "No job has run."));
  }
}

// hasSameLines reports whether two states have the same hops, which are drawn in the same way.
function hasSameLines(a: State, b: State): boolean {
  return a.hops.length === b.hops.length && a.hops.every((h, i) => h.name === b.hops[i].name && h.from === b.hops[i].from);
}

// figures are the most important ones.
function figures(s: State, history: History): HTMLElement[] {
  const run = s.jobs.filter((j) => j.running);
  const ranks = run.reduce((sum, j) => sum + j.joined - j.left - j.died - j.stopped, 0);
  const latest = s.hops.map((_, h) => history.latest(h));
  const sent = s.hops.reduce((sum, h, i) => sum + (h.link === "" && !s.drawing.vertices[h.from].switch ? latest[i].bps : 0), 0);
  const busiest = latest.reduce((a, r, i) => (r.busy > latest[a].busy ? i : a), 0);
  const down = s.hops.filter((h) => h.down).length;
  return [
    card(format.time(s.clock_ns), "time of the network"), card(String(run.length), run.length === 1 ? `job runs, ${format.count(ranks, "rank")}` : `jobs run, ${format.count(ranks, "rank")}`),
    card(format.rate(sent, "0"), "sent by all NICs now"), card(format.percent(latest[busiest].busy), latest[busiest].busy > 0 ? `busy now: ${s.hops[busiest].name}` : "busy now"),
    card(String(down), down === 1 ? "link is down" : "links are down"),
  ];
}

void new View(JSON.parse(document.getElementById("data")!.textContent!) as Page).run();
