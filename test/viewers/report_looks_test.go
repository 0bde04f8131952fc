// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/test/pagecheck"
)

// Reports and pictures of fabrics of 2, 8 and 64 nodes can be read on a phone and on a large screen, light and dark.
func TestReportLooks(t *testing.T) {
	b := start(t)
	b.fabricLooks()
	for name, d := range map[string]*report.Data{
		"2 nodes": document(t),
		"8 nodes": withTrouble(t, ring(t, 8, "topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}",
			`links: [{match: "leaf1:spine1", bandwidth: 10Gbps}]`)),
		"8 nodes of 8 NICs": ring(t, 8, "nics_per_node: 8",
			"topology: {kind: rail, spines: 4, trunk: {latency: 1us}}"),
		"64 nodes": ring(t, 64, "nics_per_node: 4",
			"topology: {kind: leaf-spine, leaves: 8, spines: 4, oversubscription: 4, trunk: {latency: 1us}}"),
	} {
		b.show("file://" + write(t, d))
		b.looks("report of " + name)
		if d.Bottleneck != nil && !strings.Contains(b.text("#bottleneck"), d.Bottleneck.Text) {
			t.Errorf("%s: %q does not name %+v", name, b.text("#bottleneck"), d.Bottleneck)
		}
		racks := map[string]int{"8 nodes of 8 NICs": 1, "64 nodes": 8}[name]
		if got := b.count(".map .rack"); got != racks {
			t.Errorf("%s: %d racks, want %d", name, got, racks)
		}
		if got := b.count(".map .hop"); got < 2*len(d.Ranks) {
			t.Errorf("%s: %d ports and links are drawn, want two for each of %d ranks", name, got, len(d.Ranks))
		}
		if name == "8 nodes" {
			b.showsTrouble(d)
		}
	}
}

// fabricLooks looks at pictures of `ddlemu fabric show --svg`. They are as wide as what they show, so only those of few
// nodes fit on a narrow screen.
func (b *browser) fabricLooks() {
	b.Helper()
	for name, c := range map[string]struct {
		text   string
		racks  int // names of nodes
		narrow bool
	}{
		"2 nodes": {"nodes: 2", 0, true},
		"8 nodes": {`nodes: 8
topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}
links: [{match: "leaf0:spine1", up: false}, {match: node3, up: false}]`, 0, false},
		"64 nodes":  {"nodes: 64\nnics_per_node: 4\ntopology: {kind: rail, spines: 4, trunk: {latency: 1us}}", 64, false},
		"dragonfly": {"nodes: 16\nnics_per_node: 8\ntopology: {kind: dragonfly, groups: 4, routers: 2, trunk: {latency: 1us}}", 16, false},
	} {
		dir := b.TempDir()
		spec, file := filepath.Join(dir, "fabric.yaml"), filepath.Join(dir, "fabric.svg")
		if err := os.WriteFile(spec, []byte("base: eth10\n"+c.text), 0o600); err != nil {
			b.Fatal(err)
		}
		picture := ddlemu(b.T, "fabric", "show", "-F", spec, "--svg")
		if err := os.WriteFile(file, []byte(picture), 0o600); err != nil {
			b.Fatal(err)
		}
		b.do(chromedp.Navigate("file://" + file))
		for _, l := range pagecheck.Looks() {
			if c.narrow || l.Width == 1600 {
				b.look("fabric of "+name, l)
			}
		}
		if got := b.count(".node"); got != c.racks {
			b.Errorf("%s: %d names in racks, want %d", name, got, c.racks)
		}
		if name == "8 nodes" && b.style(".line.down", "stroke") != "rgb(255, 123, 118)" {
			b.Errorf("a link that is down is %s on a dark page", b.style(".line.down", "stroke"))
		}
	}
}

// ring is the document of a job that sends around, on a fabric with what else the lines say.
func ring(t *testing.T, nodes int, lines ...string) *report.Data {
	t.Helper()
	f := replaytest.Fabric(t, nodes, lines...)
	p, err := replay.Play(f, replaytest.Ring(t, f, 3))
	if err != nil {
		t.Fatal(err)
	}
	r, err := why.Of(p)
	if err != nil {
		t.Fatal(err)
	}
	d := report.New(p, r)
	d.Version, d.Clock = "for a test", "virtual"
	return d
}

// withTrouble adds links that were down, and a verdict with reasons.
func withTrouble(t *testing.T, d *report.Data) *report.Data {
	t.Helper()
	for i, h := range d.Fabric.Hops {
		if h.Name == "leaf0:spine0" || h.Name == "node5 rx" {
			d.Load.Hops[i].Down = []report.Period{{120_000, 340_000}}
		}
	}
	result, err := json.Marshal(map[string]any{"verdict": "INVALID", "reasons": []string{
		"node3 rx: 12.5 % of messages of up to 64 KiB were late by more than 5 us: other programs kept this host busy",
		"a second reason"}})
	if err != nil {
		t.Fatal(err)
	}
	d.Outcomes = []report.Outcome{{Result: result}}
	longest := slices.MaxFunc(d.Calls, func(x, y report.CallTime) int { return cmp.Compare(x.Time, y.Time) })
	for i := range d.Calls {
		d.Calls[i].Ended = d.Calls[i].Time != longest.Time
	}
	return d
}

// showsTrouble checks that the page says what was slow, down and INVALID, each where it is looked for, and that a link
// has one colour in all pictures.
func (b *browser) showsTrouble(d *report.Data) {
	b.Helper()
	if d.Bottleneck == nil || d.Bottleneck.Link != "leaf1:spine1" {
		b.Fatalf("the slowest is %+v, want leaf1:spine1", d.Bottleneck)
	}
	if first := b.text("header + section"); !strings.Contains(first, "Slowest: leaf1:spine1") {
		b.Errorf("the page begins with %q", first)
	}
	if got := b.text("header .badge.invalid + div"); !strings.HasPrefix(got, "node3 rx: 12.5 %") {
		b.Errorf("beside the badge is %q", got)
	}
	if got := b.text(".critical"); !strings.Contains(got, "not ended after") || strings.Contains(got, "last byte") {
		b.Errorf("of a call that never ended: %q", got)
	}
	const red = "rgb(229, 57, 53)"
	for _, where := range []string{"#bottleneck", ".map", "#fabric > .scroll"} {
		if got := b.text(where); !strings.Contains(got, "120 to 340 us") {
			b.Errorf("%s does not say when links were down: %q", where, got)
		}
	}
	b.script(`{
		const s = document.querySelector("#time");
		s.value = Math.floor(200000 / %d);
		s.dispatchEvent(new Event("input"));
	}`, d.Load.Window)
	for _, hop := range []string{"leaf0:spine0", "node5 rx"} {
		if got := b.style(fmt.Sprintf(`.map [data-hop="%s"]`, hop), "stroke"); got != red {
			b.Errorf("%s, which is down, is %s", hop, got)
		}
	}
	colors := []string{b.style("#bottleneck .swatch", "backgroundColor"), b.style(".map .mark:last-of-type", "fill"),
		eval[string](b, `(() => {
			const row = [...document.querySelectorAll("#fabric tbody tr")].find((r) => r.textContent.startsWith("leaf1:spine1"));
			return getComputedStyle(row.querySelector(".swatch")).backgroundColor;
		})()`),
		eval[string](b, `(() => {
			const line = [...document.querySelectorAll("#split .legend li")].find((r) => r.textContent.includes("queueing on leaf1:spine1"));
			return getComputedStyle(line.querySelector("i")).backgroundColor;
		})()`)}
	if len(slices.Compact(colors)) != 1 || colors[0] == red {
		b.Errorf("leaf1:spine1 has the colours %q", colors)
	}
}

// style is a property of an element as it is drawn.
func (b *browser) style(selector, property string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf("getComputedStyle(document.querySelector(%q))[%q]", selector, property))
}
