// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/intercept/report/page"
)

// figures are those of a report.
func figures(t *testing.T, dirs ...string) *report.Data {
	t.Helper()
	var d report.Data
	if err := json.Unmarshal([]byte(ddlemu(t, append([]string{"report", "--json"}, dirs...)...)), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// The page of a job draws all parts, with the figures of the trace, and its controls change them.
func TestReportInChromium(t *testing.T) {
	dir := record(t, "alltoall", "--profile", "ndr400", "--ranks", "4", "-b", "64K", "-e", "1M", "-f", "16", "-n", "2",
		"-w", "1")
	file := filepath.Join(t.TempDir(), "x.html")
	ddlemu(t, "report", dir, "-o", file)
	d := figures(t, dir)
	b := open(t, "file://"+file)
	for selector, want := range map[string]int{
		".badge.valid": 2, ".map .nic circle": 4, ".map .switch": 1, ".map .hop": 8, "#matrix .cell": 12,
		"#split .bar": 1, "#upgrades tbody tr": len(d.Upgrades.List),
		"#calls .line": min(20, d.AllCalls), "#outcome tbody tr": len(rowsOf(t, d)), ".card": 5,
	} {
		if got := b.count(selector); got != want {
			t.Errorf("%s: %d, want %d", selector, got, want)
		}
	}
	if got, want := b.text("#upgrades .advice"), "Advice: "+d.Upgrades.Advice; got != want || d.Upgrades.Advice == "" {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(b.text("#upgrades"), "draws of jitter") { // those of ndr400
		t.Errorf("nothing says that the links draw jitter: %q", b.text("#upgrades"))
	}
	b.inked("#load-chart", 10_000)
	b.inked("#messages-chart", 2000)
	if got, want := b.text("#found"), fmt.Sprintf("%d messages, 50 of them below", d.Messages.All); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.slide(d)
	b.filterMessages(d)
	b.noErrors()
}

func rowsOf(t *testing.T, d *report.Data) []any {
	t.Helper()
	var r struct{ Rows []any }
	if err := json.Unmarshal(d.Outcomes[0].Result, &r); err != nil {
		t.Fatal(err)
	}
	return r.Rows
}

// slide moves the slider: a line has the title of the load of that window.
func (b *browser) slide(d *report.Data) {
	b.Helper()
	for place, hop := range d.Fabric.Hops {
		if hop.Name != "node2 tx" {
			continue
		}
		for _, window := range []int{0, len(d.Load.Hops[place].Busy) / 2} {
			b.script(`{
				const s = document.querySelector("#time");
				s.value = %d;
				s.dispatchEvent(new Event("input"));
			}`, window)
			got := b.text(`.map [data-hop="node2 tx"] title`)
			var percent float64
			if _, err := fmt.Sscanf(got, "node2 tx: busy %f", &percent); err != nil ||
				max(percent-float64(d.Load.Hops[place].Busy[window])/10,
					float64(d.Load.Hops[place].Busy[window])/10-percent) > 1 {
				b.Errorf("window %d: %q, want %d per mille", window, got, d.Load.Hops[place].Busy[window])
			}
		}
		b.do(chromedp.Click(`.map [data-hop="node2 tx"]`))
		if got := b.text("#load-chart .u-title"); got != "node2 tx" {
			b.Errorf("a click on node2 tx shows %q", got)
		}
	}
}

// filterMessages chooses by rank and size, and an order.
func (b *browser) filterMessages(d *report.Data) {
	b.Helper()
	want, longest := 0, int64(0)
	for i, from := range d.Messages.From {
		if from == 1 && d.Messages.Bytes[i] >= 10_000 {
			want, longest = want+1, max(longest, d.Messages.Transfer[i])
		}
	}
	b.choose("#from", "rank 1")
	b.script(`{
		const i = document.querySelector("#least");
		i.value = 10000;
		i.dispatchEvent(new Event("change"));
	}`)
	if got := b.text("#found"); !strings.HasPrefix(got, fmt.Sprintf("%d messages", want)) || want == 0 {
		b.Errorf("%q, want %d messages", got, want)
	}
	var first float64
	if _, err := fmt.Sscan(b.text("#messages-list tbody tr td:nth-child(6)"), &first); err != nil ||
		max(first*1000-float64(longest), float64(longest)-first*1000) > 100 {
		b.Errorf("the first of the longest takes %g us, want %d ns (%v)", first, longest, err)
	}
	b.choose("#from", "all")
	b.choose("#function", "AllToAll")
	if got := b.count("#calls .line"); got != min(20, d.AllCalls) {
		b.Errorf("%d calls of AllToAll, want %d", got, d.AllCalls)
	}
}

// Names are shown as they are, whatever HTML is in them.
func TestReportWithHTMLInNames(t *testing.T) {
	name := `</script><img src=x onerror="document.body.dataset.drawn='no'"><!--`
	d := document(t)
	d.Jobs, d.Notes, d.Fabric.Name, d.Fabric.Vertices[0].Name, d.Fabric.Hops[0].Name, d.Functions[0].Name = []string{
		name}, []string{name}, name, name, name, name
	b := open(t, "file://"+write(t, d))
	if got := b.text(".note"); got != name {
		t.Errorf("%q", got)
	}
	if n := b.count("img"); n != 0 {
		t.Errorf("%d images", n)
	}
	b.noErrors()
}

// A page with as many messages as it can have answers within a second.
func TestReportWithManyMessages(t *testing.T) {
	d := document(t)
	d.Messages = report.Messages{}
	calls := len(d.Calls)
	for i := range report.MostMessages {
		m := &d.Messages
		m.Call, m.From, m.To, m.Bytes = append(m.Call, i%calls), append(m.From, i%2), append(m.To, 1-i%2),
			append(m.Bytes, uint64(1+i*7919%1_000_000))
		m.Posted, m.Transfer, m.Waited, m.Again = append(m.Posted, int64(i)*10_000),
			append(m.Transfer, int64(100+i*31%100_000)), append(m.Waited, 0), append(m.Again, 0)
	}
	d.Messages.All, d.Messages.Arrived = report.MostMessages, report.MostMessages
	b := open(t, "file://"+write(t, d))
	b.inked("#messages-chart", 50_000)
	for _, step := range []struct{ list, text string }{{"#function", "AllReduce"}, {"#from", "rank 1"},
		{"#order", "largest"}, {"#function", "all functions"}} {
		took := 2 * time.Second
		for try := 0; try < 3 && took > time.Second; try++ { // other programs may delay one
			begin := time.Now()
			b.choose(step.list, step.text)
			b.text("#found")
			took = time.Since(begin)
		}
		if took > time.Second {
			t.Errorf("%s %s took %s", step.list, step.text, took)
		}
	}
	b.noErrors()
}

// document is that of a small job.
func document(t *testing.T) *report.Data {
	t.Helper()
	return figures(t, record(t, "allreduce", "--profile", "ndr400", "--ranks", "2", "-b", "64K", "-e", "64K", "-n",
		"2"))
}

// write writes a page of a document.
func write(t *testing.T, d *report.Data) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.html"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := page.Report(f, d); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
