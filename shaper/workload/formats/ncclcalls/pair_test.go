// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// rankLog is the log of one of several ranks, each a process.
type rankLog struct {
	pid, size int
	text      strings.Builder
}

// oldInit is the INIT line of NCCL up to 2.17, which has no id.
func (r *rankLog) oldInit() *rankLog {
	fmt.Fprintf(&r.text, "h:%d:%d [0] NCCL INFO comm 0x55a rank %d nranks %d cudaDev 0 busId 1b000 - Init COMPLETE\n",
		r.pid, r.pid+9, r.pid, r.size)
	return r
}

func (r *rankLog) add(name string, opCount, count, root int) *rankLog {
	r.text.WriteString(callLine(r.pid, name, opCount, count, 7, 0, root, "0x55a", r.size, "0x1"))
	return r
}

// from leaves out the calls before the n-th, as tail does.
func (r *rankLog) from(n int) *rankLog {
	lines := strings.SplitAfter(r.text.String(), "\n")
	r.text.Reset()
	calls := 0
	for _, line := range lines {
		if isCall(line) {
			if calls++; calls <= n {
				continue
			}
		}
		r.text.WriteString(line)
	}
	return r
}

func rankLogs(n int) []*rankLog {
	var logs []*rankLog
	for pid := range n {
		logs = append(logs, (&rankLog{pid: pid, size: n}).oldInit())
	}
	return logs
}

// calls are those of each rank as text, with the notes.
func calls(t *testing.T, logs []*rankLog) (perRank []string, notes string) {
	t.Helper()
	var texts []string
	for _, l := range logs {
		texts = append(texts, l.text.String())
	}
	return callsOf(t, texts...)
}

func callsOf(t *testing.T, texts ...string) (perRank []string, notes string) {
	t.Helper()
	w, err := read(input.Options{}, texts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, ops := range lists {
		var all []string
		for i := range ops {
			for o := range ops[i].Parts() {
				all = append(all, describe(o))
			}
		}
		perRank = append(perRank, strings.Join(all, " "))
	}
	return perRank, strings.Join(w.Head.Source.Notes, "; ")
}

func describe(o *workload.Op) string {
	switch o.Kind {
	case workload.Coll:
		return fmt.Sprintf("%s:%s%d", o.Comm, o.Func, o.Count)
	default:
		return fmt.Sprintf("%s:%s%d@%d", o.Comm, o.Kind, o.Count, o.Peer)
	}
}

// A log that begins late or ends early is no mismatch: the calls of all ranks are paired by their opCounts.
func TestCutLogs(t *testing.T) {
	reductions := func(counts ...int) []*rankLog {
		logs := rankLogs(2)
		for _, l := range logs {
			for n, count := range counts {
				l.add("AllReduce", n+9, count, 0)
			}
		}
		return logs
	}
	grouped := func() []*rankLog { // the three calls of a group have one opCount
		logs := rankLogs(2)
		for _, l := range logs {
			l.add("AllReduce", 0, 1, 0).add("AllReduce", 1, 2, 0).add("AllReduce", 1, 3, 0).add("AllReduce", 1, 4,
				0).add("AllReduce", 2, 5, 0)
		}
		return logs
	}
	for _, tc := range []struct {
		name string
		logs func() []*rankLog
		want []string
		note string
	}{
		{"whole", func() []*rankLog { return reductions(1, 2, 3) },
			[]string{"comm0:AllReduce1 comm0:AllReduce2 comm0:AllReduce3"}, ""},
		{"begins late", func() []*rankLog { l := reductions(1, 2, 3, 4); l[1].from(2); return l },
			[]string{"comm0:AllReduce3 comm0:AllReduce4"},
			"communicator comm0: calls of opCounts 9-a of rank 1 are not in its log: left out on all ranks"},
		{"equal calls", func() []*rankLog { l := reductions(7, 7, 7); l[0].from(1); return l },
			[]string{"comm0:AllReduce7 comm0:AllReduce7"},
			"communicator comm0: calls of opCount 9 of rank 0 are not in its log: left out on all ranks"},
		{"different parts", func() []*rankLog {
			l := reductions(1, 2, 3, 4)
			text := l[1].text.String()
			l[0].from(1)
			l[1].text.Reset()
			l[1].text.WriteString(text[:strings.Index(text, "AllReduce: opCount c")] + "\n")
			return l
		}, []string{"comm0:AllReduce2 comm0:AllReduce3"},
			"communicator comm0: calls of opCount 9 of rank 0 are not in its log: left out on all ranks; " +
				"communicator comm0: calls of opCount c of rank 1 are not in its log: left out on all ranks"},
		{"a line is missing", func() []*rankLog {
			l := reductions(1, 2, 3)
			text := l[0].text.String()
			l[0].text.Reset()
			l[0].text.WriteString(strings.Replace(text, "AllReduce: opCount a", "x", 1))
			return l
		}, []string{"comm0:AllReduce1 comm0:AllReduce3"}, "calls of opCount a of rank 0 are not in its log"},
		{"begins within a group", func() []*rankLog { l := grouped(); l[1].from(2); return l },
			[]string{"comm0:AllReduce3 comm0:AllReduce4 comm0:AllReduce5"},
			"calls of opCounts 0-1 of rank 1 are not in its log"},
		{"ends within a group", func() []*rankLog {
			l := grouped()
			text := l[1].text.String()
			l[1].text.Reset()
			l[1].text.WriteString(text[:strings.Index(text,
				"AllReduce: opCount 1 sendbuff 0x7f0 recvbuff 0x7f1 count 4")] + "\n")
			return l
		}, []string{"comm0:AllReduce1 comm0:AllReduce2 comm0:AllReduce3"},
			"calls of opCounts 1-2 of rank 1 are not in its log"},
		{"one has a call more", func() []*rankLog { l := reductions(1, 2); l[1].add("AllReduce", 12, 3, 0); return l },
			[]string{"comm0:AllReduce1 comm0:AllReduce2"},
			"calls of opCount c of rank 0 are not in its log"},
	} {
		got, notes := calls(t, tc.logs())
		if d := cmp.Diff([]string{tc.want[0], tc.want[0]}, got); d != "" || !strings.Contains(notes, tc.note) ||
			(notes == "") != (tc.note == "") {
			t.Errorf("%s: %q %s", tc.name, notes, d)
		}
	}
}

// A call that is another one on another rank stays: that is a mismatch of the job.
func TestMismatchStays(t *testing.T) {
	logs := rankLogs(2)
	logs[0].add("AllReduce", 0, 1, 0).add("AllReduce", 1, 2, 0)
	logs[1].add("AllReduce", 0, 1, 0).add("AllReduce", 1, 3, 0)
	got, notes := calls(t, logs)
	if d := cmp.Diff([]string{"comm0:AllReduce1 comm0:AllReduce2", "comm0:AllReduce1 comm0:AllReduce3"},
		got); d != "" || notes != "" {
		t.Errorf("%q %s", notes, d)
	}
}

// A pipeline of three stages: the middle one launches twice as often, so the opCounts of the ranks differ. The logs are
// whole, so nothing is left out. If one is cut, opCounts do not help.
func TestPipeline(t *testing.T) {
	pipeline := func() []*rankLog {
		logs := rankLogs(3)
		for n := range 3 {
			logs[0].add("Send", n, 10+n, 1)
			logs[1].add("Recv", 2*n, 10+n, 0).add("Send", 2*n+1, 10+n, 2)
			logs[2].add("Recv", n, 10+n, 1)
		}
		logs[0].add("AllReduce", 3, 5, 0)
		logs[1].add("AllReduce", 6, 5, 0)
		logs[2].add("AllReduce", 3, 5, 0)
		return logs
	}
	got, notes := calls(t, pipeline())
	want := []string{
		"comm0:send10@1 comm0:send11@1 comm0:send12@1 comm0:AllReduce5",
		"comm0:recv10@0 comm0:send10@2 comm0:recv11@0 comm0:send11@2 comm0:recv12@0 comm0:send12@2 comm0:AllReduce5",
		"comm0:recv10@1 comm0:recv11@1 comm0:recv12@1 comm0:AllReduce5",
	}
	if d := cmp.Diff(want, got); d != "" || notes != "" {
		t.Errorf("%q %s", notes, d)
	}
	cut := pipeline()
	cut[0].from(1)
	want[0] = "comm0:send11@1 comm0:send12@1 comm0:AllReduce5"
	got, notes = calls(t, cut)
	if d := cmp.Diff(want, got); d != "" ||
		!strings.Contains(notes,
			"communicator comm0: the opCounts of its ranks do not pair their sends and receives: all calls are kept") {
		t.Errorf("%q %s", notes, d)
	}
}

// Two ranks that send and receive in the same launches: their opCounts are the same.
func TestCutSends(t *testing.T) {
	logs := rankLogs(2)
	for n := range 4 {
		logs[0].add("Send", n, 10+n, 1).add("Recv", n, 20+n, 1)
		logs[1].add("Recv", n, 10+n, 0).add("Send", n, 20+n, 0)
	}
	logs[1].from(4)
	got, notes := calls(t, logs)
	want := []string{"comm0:send12@1 comm0:recv22@1 comm0:send13@1 comm0:recv23@1",
		"comm0:recv12@0 comm0:send22@0 comm0:recv13@0 comm0:send23@0"}
	if d := cmp.Diff(want, got); d != "" ||
		notes != "communicator comm0: calls of opCounts 0-1 of rank 1 are not in its log: left out on all ranks" {
		t.Errorf("%q %s", notes, d)
	}
}

// What was left out at the begin of a log is no computation before the first call.
func TestCutLogsBegin(t *testing.T) {
	logs := rankLogs(2)
	var texts []string
	for _, l := range logs {
		l.add("AllReduce", 0, 1, 0).add("AllReduce", 1, 2, 0).add("AllReduce", 2, 3, 0)
		second, text := 0, ""
		for line := range strings.Lines(l.text.String()) {
			text += fmt.Sprintf("[2025-01-02 10:00:0%d.5] %s", second, line)
			second++
		}
		texts = append(texts, text)
	}
	texts[1] = strings.Replace(texts[1], "opCount 0", "opCount", 1)
	w, err := read(input.Options{}, texts...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range w.Ops {
		got = append(got, fmt.Sprint(o.Kind, o.Nanos))
	}
	if text := strings.Join(got, " "); text != "coll0 calc1000000000 coll0" {
		t.Errorf("%s", text)
	}
}
