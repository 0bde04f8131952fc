// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// await waits until an expression of JavaScript is true, for at most half a minute.
func (b *browser) await(what, expression string) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); !eval[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("after half a minute, %s: the page says %q", what,
				eval[string](b, "document.body.innerText.slice(0, 3000)"))
		}
	}
}

// awaitText waits until the text of an element has this part.
func (b *browser) awaitText(selector, part string) {
	b.Helper()
	b.await(fmt.Sprintf("%s has no %q", selector, part),
		fmt.Sprintf("(document.querySelector(%q)?.textContent ?? '').includes(%q)", selector, part))
}

// fill writes values into fields of the form, by their selectors.
func (b *browser) fill(values map[string]string) {
	b.Helper()
	for selector, value := range values {
		b.script(`{
			const i = document.querySelector(%q);
			i.value = %q;
			i.dispatchEvent(new Event("input"));
		}`, selector, value)
	}
}

// answered forgets the lines on the console about answers that are errors: the page shows their texts.
func (b *browser) answered(statuses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
	for _, e := range b.errors {
		known := false
		for _, s := range statuses {
			known = known || strings.HasPrefix(e, "Failed to load resource: ") && strings.Contains(e, s)
		}
		if !known {
			left = append(left, e)
		}
	}
	b.errors = left
}

// The page shows a job's load while it runs and its sum afterwards, and the form changes links.
func TestServeInChromium(t *testing.T) {
	w := newUser(t)
	w.Run("up", "--profile", "ndr400", "--nodes", "4", "--clock", "virtual")
	s := w.serve("--listen", "127.0.0.1:0")
	b := open(t, s.url)
	for selector, want := range map[string]int{
		".map .nic circle": 4, ".map .switch": 1, ".map .hop": 8, "#hops tbody tr": 8 + 12, ".card": 5, "#events li": 1,
		"#shape .fields input": 10,
	} {
		if got := b.count(selector); got != want {
			t.Errorf("%s: %d, want %d", selector, got, want)
		}
	}
	if got := b.text("#jobs"); got != "No job has run." {
		t.Errorf("jobs: %q", got)
	}
	b.script(`{ // notes each rate of node0 tx
		window.rates = [];
		const at = (selector) => document.querySelector("#hops " + selector + ":nth-child(3)").textContent;
		const note = () => window.rates.push(at("thead th") + " " + at("tbody td"));
		new MutationObserver(note).observe(document.querySelector("#hops"), { childList: true, characterData: true, subtree: true });
	}`)
	w.Run("bench", "allreduce", "--fabric", "ndr400", "--ranks", "4", "-b", "16M", "-e", "16M", "-n", "5", "-w", "1")
	b.awaitText("#jobs tbody tr", "has ended")
	b.await("no look saw a load", `window.rates.some((r) => /^rate, Gb.s [1-3]\d\d\.\d$/.test(r))`)
	b.await("node0 tx has no sum", `document.querySelector("#hops th:nth-child(4)").textContent === "bytes, MiB" &&
		document.querySelector("#hops tbody td:nth-child(4)").textContent > "1"`)
	if got := b.text("#history h3"); got != "node0 tx" {
		t.Errorf("the history is that of %q", got)
	}
	b.awaitText("#history .about", "from its begin, ")
	b.inked("#history", 2000)
	w.shapeByForm(b)
	b.narrow()
	b.answered("400")
	b.noErrors()
	w.stop(s)
}

// shapeByForm changes links by the form, and compares with what status says.
func (w *user) shapeByForm(b *browser) {
	w.Helper()
	b.script(`document.querySelector('.map [data-hop="node3 rx"]').dispatchEvent(new Event("click"))`)
	if got := eval[string](b, `document.querySelector("#link").value`); got != "node3" {
		w.Errorf("a click on a port names %q", got)
	}
	b.fill(map[string]string{"#link": "node0>node1", "[name=bw]": "25Gbps", "[name=lat]": "7us"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said", "bandwidth 400Gbps -> 25Gbps")
	if l := w.link("ndr400", "node0", "node1"); l.BandwidthBps != 25e9 || l.LatencyNs != 7000 {
		w.Errorf("the link is %+v", l)
	}
	if l := w.link("ndr400", "node1", "node0"); l.BandwidthBps != 4e11 || l.LatencyNs != 1200 {
		w.Errorf("the other direction is %+v", l)
	}
	b.awaitText("#events li", "shape node0>node1 bw=25Gbps lat=7µs")
	b.await("the field does not show the rate",
		`document.querySelector("[name=bw]").placeholder === "25Gbps" && document.querySelector("[name=bw]").value === ""`)
	b.await("the slow link is not drawn", `document.querySelectorAll(".map .hop").length === 9`)

	b.fill(map[string]string{"[name=lat]": "5"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", `latency: "5" is not a duration: write 5us, 1.2ms or 3s`)
	if n := b.count("[name=lat][aria-invalid]"); n != 1 {
		w.Errorf("%d fields are marked as wrong", n)
	}
	b.fill(map[string]string{"[name=lat]": "", "#link": "node7"})
	b.do(chromedp.Click("#down"))
	b.awaitText("#said.off", `the fabric has node 0 to 3`)
	b.fill(map[string]string{"#link": "node2:node3"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", "nothing to change is given")

	b.do(chromedp.Click("#down"))
	b.awaitText("#said:not(.off)", "state up -> DOWN")
	if w.link("ndr400", "node2", "node3").Up || w.link("ndr400", "node3", "node2").Up ||
		!w.link("ndr400", "node0", "node3").Up {
		w.Error("not the links of node2 and node3 are down")
	}
	b.await("the page shows no links that are down",
		`document.querySelectorAll(".map .down").length === 2 && document.querySelectorAll("#hops .off").length === 2`)
	b.do(chromedp.Click("#up"))
	b.awaitText("#said", "state DOWN -> up")
	b.await("the page shows links that are down", `document.querySelectorAll("#hops .off").length === 0`)
}

// narrow shows the page on a small screen: only boxes that scroll are wider than it.
func (b *browser) narrow() {
	b.Helper()
	b.do(chromedp.EmulateViewport(390, 800))
	b.await("the page is wider than the screen", "document.documentElement.scrollWidth <= 390")
	b.inked("#history", 1000)
}

// The page says why it has no news, keeps what it had, and goes on when the fabric or the server are back.
func TestServeWhenFabricOrServerIsGone(t *testing.T) {
	w := newUser(t)
	w.Run("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual")
	w.Run("up", "--profile", "eth10", "--nodes", "3", "--clock", "virtual", "--name", "other")
	s := w.serve("--fabric", "ndr400", "--listen", "127.0.0.1:0")
	b := open(t, s.url)
	w.Run("down", "ndr400")
	b.awaitText("#trouble:not([hidden])", "fabric ndr400 is not up")
	b.awaitText("#trouble:not([hidden])", "there are other")
	if b.count("main.old .map .hop") != 4 || !strings.HasPrefix(eval[string](b, "document.title"), "(no news)") {
		t.Errorf("the page does not show what it had as old, with title %q", eval[string](b, "document.title"))
	}
	b.fill(map[string]string{"[name=lat]": "5us"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", "fabric ndr400 is not up")
	w.Run("up", "--profile", "ndr400", "--nodes", "3", "--no-measure")
	b.await("the page does not show the new fabric",
		`document.querySelector("header p").textContent.includes("real clock") && document.querySelectorAll("main:not(.old) .map .nic circle").length === 3 && document.querySelector("#trouble").hidden`)

	w.stop(s)
	b.awaitText("#trouble:not([hidden])", "the server does not answer: is `ddlemu serve` still running?")
	w.serve("--fabric", "ndr400", "--listen", s.address())
	b.await("the page does not find the server again", `document.querySelector("#trouble").hidden`)
	b.answered("503", "400", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
	b.noErrors()
}

// A page of 64 nodes is drawn and answers in time, when all its 4032 links have something to show.
func TestServeLargeFabrics(t *testing.T) {
	w := newUser(t)
	spec := filepath.Join(t.TempDir(), "spine.yaml")
	text := "name: spine\nbase: ndr400\nnodes: 64\ntopology: {kind: leaf-spine, leaves: 8, spines: 8, trunk: {latency: 1us}}\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Run("up", "--profile", "ndr400", "--nodes", "64", "--clock", "virtual")
	w.Run("up", "-f", spec, "--clock", "virtual")
	for _, c := range []struct {
		fabric      string
		lines, hops int
	}{{"ndr400", 2 * 64, 2*64 + 64*63}, {"spine", 2*64 + 2*64, 4*64 + 64*63}} {
		w.Run("shape", "--fabric", c.fabric, "--loss", "0.1%")
		begin := time.Now()
		b := open(t, w.serve("--fabric", c.fabric, "--listen", "127.0.0.1:0").url)
		t.Logf("%s: drawn in %s", c.fabric, time.Since(begin))
		if got := b.count(".map .hop"); got != c.lines {
			t.Errorf("%s: %d lines, want %d", c.fabric, got, c.lines)
		}
		if n := b.count("#hops tbody tr"); n != 50 {
			t.Errorf("%s: the table has %d rows, want 50", c.fabric, n)
		}
		b.fill(map[string]string{"#filter": "node63:"})
		b.awaitText("#found", "63 of ")
		b.script(`document.querySelectorAll("#hops tbody tr")[3].dispatchEvent(new Event("click"))`)
		b.awaitText("#history h3", "node63:node3")
		b.isNotBusy()
		b.noErrors()
	}
}

// isNotBusy lets a page look at its fabric about 5 times. A look takes at most 200 ms of the page's thread, so it answers
// meanwhile. That is processor time: other programs on the machine do not change it.
func (b *browser) isNotBusy() {
	b.Helper()
	const looks = 5
	act(b, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, t, performance.Enable, performance.EnableParams{
			TimeDomain: performance.EnableTimeDomainThreadTicks})
	})
	before := b.processorTime()
	eval[any](b, fmt.Sprintf(`new Promise(done => setTimeout(done, %d))`, looks*1000))
	took := (b.processorTime() - before) / looks
	if took <= 0 || took > 0.2 {
		b.Errorf("a look takes %.3f s of the page's thread", took)
	}
	b.Logf("a look takes %.0f ms of the page's thread", 1000*took)
}

// processorTime is the processor time of the page's thread since it was first asked for, in seconds.
func (b *browser) processorTime() float64 {
	b.Helper()
	all := act(b, func(ctx context.Context, t *chromedp.Target) (performance.GetMetricsResult, error) {
		return cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
	})
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	b.Fatal("the browser does not say what its tasks took")
	return 0
}
