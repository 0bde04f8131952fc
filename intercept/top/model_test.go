// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddlemu/ddlemu/intercept/watch"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// sampleOf is sample number n, one second after the one before, at a fabric of so many links; link i has i+1 times the
// traffic of link 0 between two samples.
func sampleOf(links, n int, jobs ...job) *watch.Sample {
	f := &status.Reading{Name: "many", Clock: "virtual", TimeScale: 1, Up: time.Duration(n) * time.Second,
		Time: time.Duration(n) * time.Millisecond}
	l := &watch.Sample{Reading: f}
	for i := range links + 1 {
		p := &status.Place{Kind: link.Link, Name: fmt.Sprintf("node%d:node%d", i, i+1), Path: []int{i}}
		if i == links {
			p = &status.Place{Kind: link.TxPort, Name: "node0 tx", NIC: "node0", Direction: "tx", Path: []int{i}}
		}
		bytes := uint64(n) * uint64(i+1) * 125_000
		f.Hops = append(f.Hops, status.HopReading{Place: p, Spec: link.Spec{Bandwidth: 100e9},
			Counters: link.Counters{Bytes: bytes, LineBytes: bytes}})
	}
	for _, j := range jobs {
		f.Jobs, l.Verdicts = append(f.Jobs, j.Job), append(l.Verdicts, j.Judged)
	}
	return l
}

type job struct {
	status.Job
	status.Judged
}

// began is a job's data in the file.
func began(at int64) state.JobStatus { return state.JobStatus{Started: at} }

var someJobs = []job{
	{status.Job{Number: 0, Counted: began(5), Joined: 4, Left: 3, Died: 1},
		status.Judged{Verdict: "INVALID",
			Reasons: []string{"a rank died", "node0:node1: " + strings.Repeat("so much was late ", 12)}}},
	{status.Job{Number: 1, Counted: began(9), Running: true, Joined: 4, Messages: 1000, Bytes: 1e9},
		status.Judged{Verdict: "VALID"}},
	{status.Job{Number: 2, Counted: began(7), Running: true, Joined: 1}, status.Judged{}},
}

// shown is a model of n links that has sampled twice, in a terminal of this size.
func shown(t *testing.T, n, width, height int) Model {
	t.Helper()
	m := New("many", nil, time.Second)
	m = send(m, tea.WindowSizeMsg{Width: width, Height: height})
	m = send(m, sampleMsg{sample: sampleOf(n, 1)})
	return send(m, sampleMsg{sample: sampleOf(n, 2, someJobs...)})
}

func send(m Model, msgs ...tea.Msg) Model {
	for _, msg := range msgs {
		next, _ := m.Update(msg)
		m = next.(Model)
	}
	return m
}

// press presses keys: single characters, or names such as pgdown.
func press(m Model, keys ...string) Model {
	for _, k := range keys {
		m = send(m, key(k))
	}
	return m
}

var codes = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "up": tea.KeyUp, "down": tea.KeyDown,
	"left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace,
	"tab": tea.KeyTab,
}

func key(name string) tea.KeyPressMsg {
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(strings.ToLower(name))[0], Text: name}
}

// screen is what the terminal shows.
func screen(m Model) string { return ansi.Strip(m.View().Content) }

var linkRow = regexp.MustCompile(`(?m)^(node\d+(?::node\d+| tx)) `)

// links are the names of the links that are shown.
func links(m Model) string {
	var names []string
	for _, row := range linkRow.FindAllStringSubmatch(screen(m), -1) {
		names = append(names, row[1])
	}
	return strings.Join(names, " ")
}

func TestScreen(t *testing.T) {
	got := strings.Split(screen(shown(t, 3, 100, 14)), "\n")
	want := []string{
		"fabric many: 3 of 3 links active, 2 jobs running",
		"clock virtual at 2ms, 0.001 s per real second",
		"job (2 of 3)  state    joined  left  died    bytes  messages       rate  verdict",
		"1             running       4     0     0     1 GB      1000     8 Tbps  VALID so far",
		"2             running       1     0     0      0 B         0          0  no verdict yet",
		"link 1-3 of 3       rate↓         of    load    queue    drops              late",
		"node2:node3        3 Gbps    100Gbps   3.0 %        0        0                 -",
		"node1:node2        2 Gbps    100Gbps   2.0 %        0        0                 -",
		"node0:node1        1 Gbps    100Gbps   1.0 %        0        0                 -",
		"", "", "", "",
		"q quit  s sort  / filter  p ports  v verdicts  r reverse",
	}
	for i := range got {
		got[i] = strings.TrimRight(got[i], " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A counter that a link has gets a column, which a narrow terminal leaves out first.
func TestCountersHaveColumns(t *testing.T) {
	for width, want := range map[int]bool{140: true, 80: false} {
		m := shown(t, 3, width, 14)
		for _, c := range link.ShownCounters() {
			if strings.Contains(screen(m), c.Column) && c.Column != "" {
				t.Errorf("a column for %s, which is 0:\n%s", c.Name, screen(m))
			}
		}
		l := sampleOf(3, 3)
		l.Hops[1].Counters.Add(link.Counters{ECNMarks: 5, Pauses: 1, PausedNs: 3e6})
		m = send(m, sampleMsg{sample: l})
		for _, text := range []string{"ECN marks", "pauses", "paused for", "5 (+5)", "3ms (+3ms)"} {
			if strings.Contains(screen(m), text) != want {
				t.Errorf("width %d, %q: want it %t in\n%s", width, text, want, screen(m))
			}
		}
	}
}

func TestFirstSample(t *testing.T) {
	m := New("many", nil, time.Millisecond)
	if m.View().Content != "" {
		t.Error("it draws before it knows the size")
	}
	m = send(m, tea.WindowSizeMsg{Width: 80, Height: 24})
	next, cmd := m.Update(sampleMsg{sample: sampleOf(2, 1)})
	if got := screen(next.(Model)); got != "fabric many" {
		t.Errorf("after the first sample: %q", got)
	}
	if msg := cmd(); msg != (tickMsg{}) {
		t.Errorf("after a sample comes %v", msg)
	}
	if !m.View().AltScreen {
		t.Error("the user's screen is overwritten")
	}
}

// After each interval comes a sample, and after each sample an interval.
func TestSampleFollowTicks(t *testing.T) {
	n := 0
	m := New("many", func() (*watch.Sample, error) { n++; return sampleOf(1, n), nil }, time.Millisecond)
	msg := m.Init()()
	for range 3 {
		next, cmd := m.Update(msg)
		m, msg = next.(Model), cmd()
	}
	if n != 2 || msg != (tickMsg{}) || m.view == nil || m.view.RealNs != 1e9 {
		t.Errorf("%d samples, then %v, and %+v", n, msg, m.view)
	}
}

func TestSortKeys(t *testing.T) {
	m := shown(t, 3, 100, 20)
	for _, tc := range []struct{ keys, want, head string }{
		{"", "node2:node3 node1:node2 node0:node1", "rate↓"},
		{"r", "node0:node1 node1:node2 node2:node3", "rate↑"},
		{"r s", "node0:node1 node1:node2 node2:node3", "load↑"},
		{"S", "node0:node1 node1:node2 node2:node3", "link↑"},
		{"left right", "node2:node3 node1:node2 node0:node1", "rate↓"},
		{"s s", "node2:node3 node1:node2 node0:node1", "queue↓"},
	} {
		after := press(m, strings.Fields(tc.keys)...)
		if got := links(after); got != tc.want || !strings.Contains(screen(after), tc.head) {
			t.Errorf("%q: %s in\n%s", tc.keys, got, screen(after))
		}
	}
}

func TestFilter(t *testing.T) {
	m := shown(t, 12, 100, 30)
	for _, tc := range []struct{ keys, want, foot string }{
		{"/ n o d e 1 0", "node10:node11 node9:node10", "part of a name: node10_"},
		{"/ 1 0 : enter", "node10:node11", "names with 10: (esc: all)  q quit"},
		{"/ q s r x backspace backspace backspace backspace 9 :", "node9:node10", "part of a name: 9:_"},
		{"/ 1 1 backspace 0 : enter", "node10:node11", "names with 10: "},
		{"/ x x ctrl+u 8 : enter", "node8:node9", "names with 8: "},
		{"/ n o t h i n g", "", "part of a name: nothing_"},
		{"/ 8 : enter / backspace backspace 3 : enter esc / 3 : enter", "node3:node4", "names with 3: "},
	} {
		after := press(m, strings.Fields(tc.keys)...)
		if got := links(after); got != tc.want || !strings.Contains(screen(after), tc.foot) {
			t.Errorf("%q: %s in\n%s", tc.keys, got, screen(after))
		}
	}
	for _, keys := range []string{"/ 8 : esc", "/ 8 : enter esc"} {
		if got := links(press(m, strings.Fields(keys)...)); got != links(m) {
			t.Errorf("%q: %s", keys, got)
		}
	}
}

func TestScroll(t *testing.T) {
	m := shown(t, 100, 80, 13) // 2 jobs with heads, the heads of links, and 6 links
	for _, tc := range []struct{ keys, want string }{
		{"", "1-6 of 100"},
		{"down j", "3-8 of 100"},
		{"down up up up", "1-6 of 100"},
		{"pgdown space pgup", "7-12 of 100"},
		{"end", "95-100 of 100"},
		{"end down pgdown G", "95-100 of 100"},
		{"end home", "1-6 of 100"},
		{"end / 9 9 :", "1-1 of 1"}, // node99:node100
		{"end p", "95-100 of 101"},
	} {
		after := press(m, strings.Fields(tc.keys)...)
		if !strings.Contains(screen(after), " "+tc.want+" ") {
			t.Errorf("%q: not %s in\n%s", tc.keys, tc.want, screen(after))
		}
	}
	if got := screen(send(press(m, "end"), tea.WindowSizeMsg{Width: 80, Height: 33})); !strings.Contains(got,
		" 76-100 of 100 ") {
		t.Errorf("after the terminal has grown:\n%s", got)
	}
}

func TestPorts(t *testing.T) {
	m := shown(t, 2, 80, 20)
	if got := links(press(m, "p")); got != "node0 tx node1:node2 node0:node1" {
		t.Errorf("with ports: %s", got)
	}
	if got := links(press(m, "p", "p")); got != links(m) {
		t.Errorf("without: %s", got)
	}
}

func TestVerdicts(t *testing.T) {
	m := press(shown(t, 2, 60, 20), "v")
	got := screen(m)
	for _, want := range []string{
		"\njob 1: running, 4 joined,", "\njob 2: running", "\njob 0: over", "\n  - a rank died",
		"\n  - node0:node1: so much was late so", "\n    so much was late",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "rate↓") {
		t.Errorf("links are there too:\n%s", got)
	}
	if links(press(m, "tab")) == "" || links(press(m, "esc")) == "" {
		t.Error("there is no way back to the links")
	}
	none := send(press(New("many", nil, time.Second), "v"), tea.WindowSizeMsg{Width: 60, Height: 9},
		sampleMsg{sample: sampleOf(1, 1)}, sampleMsg{sample: sampleOf(1, 2)})
	if !strings.Contains(screen(none), "no job has run on this fabric") {
		t.Errorf("got\n%s", screen(none))
	}
}

// Of the jobs that are over, only the newest is beside the links. All of them are with the verdicts.
func TestJobsThatAreOver(t *testing.T) {
	jobs := []job{
		{status.Job{Number: 0, Counted: began(1)}, status.Judged{}}, {status.Job{Number: 1, Counted: began(2)},
			status.Judged{}},
		{status.Job{Number: 2, Counted: began(4)}, status.Judged{Verdict: "VALID"}},
		{status.Job{Number: 3, Counted: began(3), Running: true}, status.Judged{}},
	}
	for _, tc := range []struct {
		jobs []job
		want string
	}{
		{jobs, "job (2 of 4) 3 2"},
		{jobs[:3], "job (1 of 3) 2"},
		{jobs[3:], "job 3"},
	} {
		m := send(New("many", nil, time.Second), tea.WindowSizeMsg{Width: 100, Height: 40}, sampleMsg{sample: sampleOf(2, 1)},
			sampleMsg{sample: sampleOf(2, 2, tc.jobs...)})
		var got []string
		for _, row := range regexp.MustCompile(
			`(?m)^(\d|job(?: \(.*\))?) +(?:state|running|over)`).FindAllStringSubmatch(screen(m), -1) {
			got = append(got, row[1])
		}
		if listed := strings.Join(got, " "); listed != tc.want {
			t.Errorf("listed %q, want %q:\n%s", listed, tc.want, screen(m))
		}
		if all := screen(press(m, "v")); strings.Count(all, "\njob ") != len(tc.jobs) {
			t.Errorf("with the verdicts:\n%s", all)
		}
	}
}

func TestQuit(t *testing.T) {
	for keys, quits := range map[string]bool{"q": true, "ctrl+c": true, "/ q": false, "/ ctrl+c": true, "v q": true,
		"x": false} {
		m, list := shown(t, 2, 80, 20), strings.Fields(keys)
		m = press(m, list[:len(list)-1]...)
		_, cmd := m.Update(key(list[len(list)-1]))
		quit := false
		if cmd != nil {
			_, quit = cmd().(tea.QuitMsg)
		}
		if quit != quits {
			t.Errorf("%s: quits %v", keys, quit)
		}
	}
}

func TestFabricThatIsGone(t *testing.T) {
	gone := fmt.Errorf("fabric many %w", watch.ErrGone)
	next, cmd := shown(t, 2, 80, 20).Update(sampleMsg{err: gone})
	if _, ok := cmd().(tea.QuitMsg); !ok || !errors.Is(next.(Model).Err(), watch.ErrGone) {
		t.Errorf("got %v", next.(Model).Err())
	}
}

func TestProblem(t *testing.T) {
	m := shown(t, 2, 80, 20)
	l := sampleOf(2, 3)
	l.Problem = "its daemon is gone"
	if got := screen(send(m, sampleMsg{sample: l})); !strings.Contains(got, "fabric many: its daemon is gone\n") {
		t.Errorf("got\n%s", got)
	}
}

// Nothing is wider or higher than the terminal, whatever its size.
func TestEverySizeFits(t *testing.T) {
	for width := 1; width <= 130; width += 7 {
		for _, height := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 24, 60} {
			for _, keys := range []string{"", "end p", "v end", "/ n o d e"} {
				m := press(shown(t, 50, width, height), strings.Fields(keys)...)
				lines := strings.Split(m.View().Content, "\n")
				if len(lines) != height {
					t.Fatalf("%d x %d, %q: %d lines", width, height, keys, len(lines))
				}
				for _, l := range lines {
					if ansi.StringWidth(l) > width {
						t.Fatalf("%d x %d, %q: %d wide: %q", width, height, keys, ansi.StringWidth(l), l)
					}
				}
			}
		}
	}
}

func TestSmallTerminal(t *testing.T) {
	got := screen(shown(t, 300, 40, 10))
	for _, want := range []string{"many: 300 of 300 links active", "clock virtual at 2ms, 0.001 s per", "VALID so far",
		"node299:node300", "300 Gbps", "q quit"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
