// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/intercept/whatif"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// twoJobs is the document of replaytest.TwoJobs, on a fabric with what else the lines say.
func twoJobs(t *testing.T, lines ...string) *Data {
	t.Helper()
	return documentOf(t, replaytest.Fabric(t, 3, lines...))
}

// documentOf is the document of replaytest.TwoJobs on a fabric.
func documentOf(t *testing.T, f *replay.Fabric) *Data {
	t.Helper()
	p, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	r, err := why.Of(p)
	if err != nil {
		t.Fatal(err)
	}
	return New(p, r)
}

// Three messages of 1.25 MB on links of 100 Gb/s: each occupies its sender's port and the receiver's for 100 us. The
// receiver's port is shared by both jobs.
func TestTwoJobs(t *testing.T) {
	d := twoJobs(t)
	busy := map[string]int64{}
	for i, h := range d.Fabric.Hops {
		busy[h.Name] = h.Busy / 100 * 100 // each segment is rounded up to a ns
		sum := int64(0)
		for _, b := range d.Load.Hops[i].Busy {
			sum += int64(b) * d.Load.Window / 1000
		}
		if off := sum - h.Busy; max(off, -off) > h.Busy/100 {
			t.Errorf("%s: the windows sum to %d ns, all is %d", h.Name, sum, h.Busy)
		}
	}
	ports := map[string]int64{}
	for _, name := range []string{"node0 tx", "node2 tx", "node1 rx"} {
		ports[name] = busy[name]
	}
	if diff := cmp.Diff(map[string]int64{"node0 tx": 200_000, "node2 tx": 100_000, "node1 rx": 300_000},
		ports); diff != "" {
		t.Error(diff)
	}
	want := []Pair{{From: 0, To: 1, Messages: 2, Bytes: 2_500_000}, {From: 2, To: 3, Messages: 1, Bytes: 1_250_000}}
	if diff := cmp.Diff(want, d.Functions[0].Traffic); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Class{{Most: 1 << 21, Messages: 3, Bytes: 3_750_000}}, d.Functions[0].Sizes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Rank{{0, 0, 0}, {0, 1, 1}, {1, 0, 2}, {1, 1, 1}}, d.Ranks); diff != "" {
		t.Error(diff)
	}
}

// The parts of each call sum to its time, those of a function to that of its calls, and the path has the same parts.
func TestPartsSum(t *testing.T) {
	d := twoJobs(t)
	if d.AllCalls != 3 || len(d.Calls) != 3 {
		t.Fatalf("%d calls of %d", len(d.Calls), d.AllCalls)
	}
	sum := func(parts []Part) (ns int64) {
		for _, p := range parts {
			ns += p.Time
			if p.Cause < 0 || p.Cause >= len(d.Causes) {
				t.Errorf("there is no cause %d", p.Cause)
			}
		}
		return ns
	}
	all := int64(0)
	for _, c := range d.Calls {
		if sum(c.Parts) != c.Time || sum(c.Path) != c.Time {
			t.Errorf("call %d: parts %d, path %d, time %d", c.Sequence, sum(c.Parts), sum(c.Path), c.Time)
		}
		all += c.Time
	}
	if f := d.Functions[0]; f.Time != all || sum(f.Parts) != all || f.Calls != 3 {
		t.Errorf("function: %+v, calls take %d", f, all)
	}
}

// The second job's message waits at the receiver's port for the first one's.
func TestMessages(t *testing.T) {
	m := twoJobs(t).Messages
	if m.All != 3 || m.Arrived != 3 || len(m.Posted) != 3 {
		t.Fatalf("%+v", m)
	}
	for i := range m.Posted {
		if m.Transfer[i] < 101_000 || m.Bytes[i] != 1_250_000 || m.Call[i] < 0 {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	if m.Waited[0]+m.Waited[1] == 0 {
		t.Error("two messages at one port, and none waited")
	}
}

// With half the rate on one link, that link is drawn as an arc, because it takes time there.
func TestLinksBetweenNICs(t *testing.T) {
	d := twoJobs(t, "links:\n  - {match: \"node0:node1\", bandwidth: 50Gbps}")
	for _, h := range d.Fabric.Hops {
		if h.Name == "node0:node1" && (h.From != 0 || h.To != 1 || h.Bandwidth != 50e9 || h.Busy/100 != 4000) {
			t.Errorf("%+v", h)
		}
	}
}

// A change of links while the job ran is in the document with its time: what the fabric had before it, and from it on.
// What was changed before the job's first message was in force from the begin.
func TestChanges(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tx := f.Hops[0].Spec
	change := func(at int64, gbps uint64) ledger.Change {
		tx.Bandwidth = gbps * 1e9
		return ledger.Change{Time: at, Hop: 0, Spec: tx}
	}
	begin := documentOf(t, f)
	if len(begin.Changes) != 0 {
		t.Fatalf("without changes: %+v", begin.Changes)
	}
	p, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := p.Trace.Span()
	f.Changes = []ledger.Change{change(0, 80), change(first+50_000, 40)}
	d := documentOf(t, f)
	hop := d.Fabric.Hops[0]
	want := []HopChange{{Time: 50_000, What: "bandwidth 80Gbps -> 40Gbps", Bandwidth: 40e9, Latency: hop.Latency}}
	if diff := cmp.Diff(want, hop.Changes); diff != "" || hop.Bandwidth != 80e9 {
		t.Errorf("%s had %g, %s", hop.Name, hop.Bandwidth, diff)
	}
	if diff := cmp.Diff([]Change{{Time: 50_000, Text: hop.Name + ": bandwidth 80Gbps -> 40Gbps", Hops: []int{0}}},
		d.Changes); diff != "" {
		t.Error(diff)
	}
}

// The page draws NICs and then switches, and lines between them.
func TestDraw(t *testing.T) {
	f := replaytest.Fabric(t, 2, "topology: {kind: leaf-spine, leaves: 2, spines: 1, trunk: {latency: 1us}}")
	none := func(int) bool { return false }
	d, lines, _ := Draw(f.Fabric, none, none)
	var names []string
	for _, v := range d.Vertices {
		names = append(names, v.Name)
		if v.X <= 0 || v.X >= d.Width || v.Y <= 0 || v.Y >= d.Height {
			t.Errorf("%+v is outside of %v x %v", v, d.Width, d.Height)
		}
	}
	if diff := cmp.Diff([]string{"node0", "node1", "leaf0", "leaf1", "spine0"}, names); diff != "" {
		t.Error(diff)
	}
	ends := map[string][2]string{}
	for _, l := range lines {
		ends[l.Name] = [2]string{names[l.From], names[l.To]}
	}
	for name, want := range map[string][2]string{
		"node1 tx": {"node1", "leaf1"}, "node1 rx": {"leaf1", "node1"}, "spine0:leaf1": {"spine0", "leaf1"},
	} {
		if ends[name] != want {
			t.Errorf("%s joins %q, want %q", name, ends[name], want)
		}
	}
}

// What waits is the same with a sum over all of time, at every window's begin.
func TestPropertyMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window, windows = 10, 20
		var all []level
		waiting := make([]int64, window*windows)
		for range rapid.IntRange(0, 12).Draw(t, "waits") {
			begin := rapid.Int64Range(0, window*windows-2).Draw(t, "begin")
			end := rapid.Int64Range(begin+1, window*windows-1).Draw(t, "end")
			bytes := rapid.Int64Range(1, 5).Draw(t, "bytes")
			all = append(all, level{begin, bytes}, level{end, -bytes})
			for at := begin; at < end; at++ {
				waiting[at] += bytes
			}
		}
		want, got := make([]int64, windows), make([]int64, windows)
		for at, n := range waiting {
			want[at/window] = max(want[at/window], n)
		}
		most(got, window, all)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestOutcomes(t *testing.T) {
	with, without, foreign := t.TempDir(), t.TempDir(), t.TempDir()
	if err := WriteOutcome(with, map[string]string{"verdict": "VALID"}); err != nil {
		t.Fatal(err)
	}
	got, err := Outcomes([]string{without, with})
	if err != nil || len(got) != 1 || got[0].Job != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	var r struct{ Verdict string }
	if err := json.Unmarshal(got[0].Result, &r); err != nil || r.Verdict != "VALID" {
		t.Errorf("%s, %v", got[0].Result, err)
	}
	for _, text := range []string{"", "{", "[1]", `{"a": 1}`} {
		if err := os.WriteFile(filepath.Join(foreign, outcomeFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Outcomes([]string{foreign}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// A packet that is sent again counts once, for its message and at its sender's port.
func TestSentAgain(t *testing.T) {
	d := twoJobs(t, "  loss: 1%", "  mtu: 1500", "  header: 40")
	hops, sent := uint64(0), uint64(0)
	for _, h := range d.Fabric.Hops {
		hops += h.Again
	}
	for _, n := range d.Messages.Again {
		sent += n
	}
	if hops != sent || hops == 0 {
		t.Errorf("%d packets of messages are sent again, %d by ports", sent, hops)
	}
}

// What waits for a congested link counts for that one.
func TestCauseOfCongestion(t *testing.T) {
	for want, p := range map[string]why.Part{
		"a:b": {Cause: why.Paused, Link: "node0 tx", Congested: "a:b"}, "c:d": {Cause: why.Queue, Link: "c:d"},
		"": {Cause: why.Propagation},
	} {
		m := &maker{data: &Data{}, causes: map[Cause]int{}}
		m.cause(p)
		if got := m.data.Causes[0].Link; got != want {
			t.Errorf("%v: %q, want %q", p, got, want)
		}
	}
}

// A list of upgrades has links in JSON also if no link has a rate that could grow: the page lists them.
func TestUpgradesWithoutRates(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	for i := range f.Hops {
		f.Hops[i].Spec.Bandwidth = 0
	}
	p, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	r, err := why.Of(p)
	if err != nil {
		t.Fatal(err)
	}
	changes := whatif.Upgrades(p, r, 5)
	results, err := whatif.New(f, p.Trace).Of(changes)
	if err != nil {
		t.Fatal(err)
	}
	d := New(p, r)
	d.AddUpgrades(changes, results, nil)
	if len(d.Upgrades.List) < 2 {
		t.Fatalf("%+v", d.Upgrades)
	}
	for _, u := range d.Upgrades.List {
		if u.Links == nil {
			t.Errorf("%s has no list of links", u.Name)
		}
	}
}

// The times in which links were down are those between changes, from the first thing that was recorded to the last.
func TestDown(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	up, down := f.Hops[f.Link(2, 0)].Spec, f.Hops[f.Link(2, 0)].Spec
	down.Down = true
	f.Changes = []ledger.Change{{Hop: f.Link(2, 0), Time: 20_000, Spec: down},
		{Hop: f.Link(2, 0), Time: 50_000, Spec: up}, {Hop: f.Link(0, 2), Time: 70_000, Spec: down}}
	d := documentOf(t, f)
	got := map[string][]Period{}
	for i, h := range d.Fabric.Hops {
		if was := d.Load.Hops[i].Down != nil; was != h.Down {
			t.Errorf("%s was down: %v, the hop says %v", h.Name, was, h.Down)
		}
		if all := d.Load.Hops[i].Down; all != nil {
			got[h.Name] = all
			if h.From < 0 {
				t.Errorf("%s was down and is not drawn", h.Name)
			}
		}
	}
	want := map[string][]Period{"node2:node0": {{20_000, 50_000}}, "node0:node2": {{70_000, d.Span}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A call that never ended is marked.
func TestNotEnded(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	p, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	r, err := why.Of(p)
	if err != nil {
		t.Fatal(err)
	}
	r.Calls[1].Unfinished, r.Calls[1].Rank = true, "rank 7"
	for _, c := range New(p, r).Calls {
		if c.Ended != (c.LastRank != "rank 7") {
			t.Errorf("%+v", c)
		}
	}
}

// The document has the bottleneck of why, with its text.
func TestBottleneckOfWhy(t *testing.T) {
	want := &Bottleneck{Text: "Slowest: 2 links alike (node0 tx, node1 rx), with 40 % of the time of all calls each",
		Link: "node0 tx", Alike: []string{"node0 tx", "node1 rx"}, Time: 200_006, All: 504_629}
	if diff := cmp.Diff(want, twoJobs(t).Bottleneck); diff != "" {
		t.Error(diff)
	}
}

// docs/report.md has each key of the document.
func TestKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## The figures as JSON")
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		for x.Kind() == reflect.Slice || x.Kind() == reflect.Pointer || x.Kind() == reflect.Array {
			x = x.Elem()
		}
		isOfReport := x.PkgPath() == reflect.TypeFor[Data]().PkgPath() && x != reflect.TypeFor[Drawing]()
		if x.Kind() != reflect.Struct || seen[x] || !isOfReport {
			return
		}
		seen[x] = true
		for f := range x.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key != "" && !strings.Contains(table, "`"+key+"`") && !strings.Contains(table, "`"+key+"[]`") {
				t.Errorf("%s of %s is not in the table", key, x.Name())
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Data]())
}
