// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// rec are the calls of a rank of a communicator, such as "A0:8 G0:4 >1:16 <3:16 | A1:8": a function with its number
// and its count, a message to or from a peer, and the end of a group.
type rec struct {
	process, comm string
	rank, size    int
	calls         string
}

func job(t *testing.T, recs []rec) (*Job, error) {
	t.Helper()
	j := &Job{}
	at := int64(0)
	for _, r := range recs {
		m, err := j.Member(r.process, r.comm, r.rank, r.size)
		if err != nil {
			return nil, err
		}
		group := int32(1)
		for _, text := range strings.Fields(r.calls) {
			if text == "|" {
				group++
				continue
			}
			var n, count int64
			if _, err := fmt.Sscanf(text[1:], "%d:%d", &n, &count); err != nil {
				t.Fatal(err)
			}
			o := workload.Op{Kind: workload.Coll, Type: "int8", Count: count}
			switch text[0] {
			case 'A':
				o.Func = workload.AllReduce
			case 'G':
				o.Func = workload.AllGather
			case '>':
				o.Kind, o.Peer = workload.Send, int(n)
			case '<':
				o.Kind, o.Peer = workload.Recv, int(n)
			}
			at += 1000
			if err := m.Add(&o, n, at, group); err != nil {
				return nil, err
			}
		}
	}
	return j, nil
}

// text is what rank 0 does: functions by their first letters with their counts.
func text(w *workload.Workload, rank int) string {
	var out []string
	for i := range w.Ops {
		o := &w.Ops[i]
		of := o.Ranks
		if len(of) == 0 {
			for _, c := range w.Head.Comms {
				if c.Name == o.Comm {
					of = append(of, c.Ranks...)
				}
			}
		}
		if len(of) > 0 && !slices.Contains(of, rank) {
			continue
		}
		part := ""
		for p := range o.Parts() {
			name := string(p.Func)
			if p.Kind != workload.Coll {
				name = string(p.Kind)
			}
			part += fmt.Sprintf("%s%d", name[:1], p.Count)
		}
		if o.Kind == workload.Calc {
			part = fmt.Sprintf("c%d", o.Nanos)
		}
		out = append(out, part)
	}
	return strings.Join(out, " ")
}

func TestBuild(t *testing.T) {
	for name, test := range map[string]struct {
		recs  []rec
		o     input.Options
		want  string // of rank 0
		notes string
		err   string
	}{
		"whole": {recs: []rec{{"p", "x", 0, 2, "A0:8 G0:4"}, {"q", "x", 1, 2, "A0:8 G0:4"}}, want: "A8 A4"},
		"each lacks some": {
			recs:  []rec{{"p", "x", 0, 2, "A0:8 G0:4 A2:16"}, {"q", "x", 1, 2, "A0:8 A1:12 A2:16 G1:5"}},
			want:  "A8 A4 A12 A16 A5",
			notes: "communicator comm0: 3 calls on a rank that did not record it: taken from the other ranks",
		},
		"the first is on one rank alone": {
			recs: []rec{{"p", "x", 0, 2, "A1:8"}, {"q", "x", 1, 2, "G0:4"}},
			want: "A4 A8", notes: "AllReduce of communicator comm0: not recorded, left out: 1 call before number 1",
		},
		"nobody has it": {
			recs:  []rec{{"p", "x", 0, 2, "A0:8 A3:8"}, {"q", "x", 1, 2, "A0:8 A3:8"}},
			want:  "A8 A8",
			notes: "AllReduce of communicator comm0: not recorded, left out: 2 calls between numbers 0 and 3",
		},
		"differs": {recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"q", "x", 1, 2, "A0:9"}},
			err: "communicator x: AllReduce number 0 has 8 int8 on a rank and 9 int8 on rank 1: give the files of one job"},
		"twice": {recs: []rec{{"p", "x", 0, 2, "A0:8 A0:8"}, {"q", "x", 1, 2, "A0:8"}},
			err: "AllReduce number 0 is there twice on rank 0"},
		"same rank": {recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"q", "x", 0, 2, "A0:8"}},
			err: "two processes, p and q, are rank 0 of communicator x"},
		"alone":              {recs: []rec{{"p", "x", 2, 4, "A0:8"}}, o: input.Options{OneForAll: true}, want: "A8"},
		"alone, not for all": {recs: []rec{{"p", "x", 2, 4, "A0:8"}}, err: "the file is of one of 4 ranks"},
		"some": {recs: []rec{{"p", "x", 2, 4, "A0:8"}, {"q", "x", 1, 4, "A0:8"}},
			o: input.Options{OneForAll: true}, err: "a communicator has 4 ranks, and there are calls of 2"},
		"alone with messages": {
			recs: []rec{{"p", "x", 0, 2, ">1:8"}}, o: input.Options{OneForAll: true},
			err: "give the files of all ranks",
		},
		"alone with a part": {
			recs: []rec{{"p", "x", 0, 4, "A0:8"}, {"p", "y", 0, 2, "A0:8"}}, o: input.Options{OneForAll: true},
			err: "which ranks are in communicator y of 2 ranks is not known",
		},
		"parts": {
			recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"p", "y", 0, 1, "A0:3"}, {"q", "x", 1, 2, "A0:8"},
				{"q", "z", 0, 1, "A0:5"}},
			want: "A8 A3",
		},
		"messages": {recs: []rec{{"p", "x", 0, 2, ">1:8 <1:4 | >1:2"}, {"q", "x", 1, 2, "<0:8 >0:4 | <0:2"}},
			want: "s8r4 s2"},
		"messages that one lacks": {
			recs: []rec{{"p", "x", 0, 2, ">1:8 <1:4 | >1:2"}, {"q", "x", 1, 2, "<0:8 >0:4"}},
			want: "s8r4", notes: "1 message (sends or receives) on communicator comm0: left out",
		},
		"messages in another order": {
			recs: []rec{{"p", "x", 0, 2, ">1:8 >1:4 A0:1"}, {"q", "x", 1, 2, "<0:4 <0:8 A0:1"}},
			want: "A1", notes: "4 messages",
		},
		"a part of which a rank has none": {
			recs: []rec{{"p", "x", 0, 3, "A0:8"}, {"q", "x", 1, 3, "A0:8"}, {"r", "x", 2, 3, "A0:8"},
				{"p", "y", 0, 2, "A0:4"}},
			want: "A8", notes: "communicator y of 2 ranks: 1 record left out: only 1 rank of it recorded a call",
		},
		"two ranks in a process": {
			recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"p", "x", 1, 2, "A0:8"}, {"p", "y", 0, 1, "A0:4"}},
			want: "A8", notes: "communicator y of 1 ranks: 1 record left out: process p has several ranks",
		},
		"alone, and a stranger": {
			recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"q", "y", 0, 2, "A0:8"}}, o: input.Options{OneForAll: true},
			err: "communicator y: process q is not in the communicator of all ranks: give the files of one job",
		},
		"a stranger": {
			recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"q", "x", 1, 2, "A0:8"}, {"r", "y", 0, 1, "A0:8"}},
			want: "A8", notes: "1 record left out: process r is not in the communicator of all ranks",
		},
		"sizes not said": {recs: []rec{{"p", "x", 0, 0, "A0:8"}, {"q", "x", 1, 0, "A0:8"}}, want: "A8"},
		"alone, not said": {recs: []rec{{"p", "x", 1, 0, "A0:8"}}, o: input.Options{OneForAll: true},
			err: "add --ranks N"},
		"alone, not said, 4": {recs: []rec{{"p", "x", 1, 0, "A0:8"}}, o: input.Options{OneForAll: true, Ranks: 4},
			want: "A8"},
		"alone, not said, 1": {recs: []rec{{"p", "x", 1, 0, "A0:8"}}, o: input.Options{OneForAll: true, Ranks: 1},
			err: "--ranks 1, and there is a rank 1"},
		"alone, not said, two": {recs: []rec{{"p", "x", 0, 0, "A0:8"}, {"p", "y", 0, 0, "A0:8"}},
			o: input.Options{OneForAll: true, Ranks: 4}, err: "on 2 communicators, and not how many ranks each has"},
		"rank beyond": {recs: []rec{{"p", "x", 2, 2, "A0:8"}}, err: "rank 2 of a communicator of 2 ranks"},
		"size changes": {recs: []rec{{"p", "x", 0, 2, "A0:8"}, {"p", "x", 0, 3, "A1:8"}},
			err: "has 2 ranks and 3"},
		"nothing that all have": {recs: []rec{{"p", "x", 0, 2, ">1:8"}, {"q", "x", 1, 2, ">0:8"}},
			err: "no call that all ranks"},
	} {
		j, err := job(t, test.recs)
		var w *workload.Workload
		if err == nil {
			w, err = j.Build("f", test.o)
		}
		if err != nil || test.err != "" {
			if err == nil || test.err == "" || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if got := text(w, 0); got != test.want || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"),
			test.notes) {
			t.Errorf("%s: %s, want %s; notes %q, want %q", name, got, test.want, w.Head.Source.Notes, test.notes)
		}
		ix, err := w.Index()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found, err := check.Run(t.Context(), ix); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", name, err, found)
		}
	}
}

// The time between two calls of the host is a computation, on all communicators of a rank together.
func TestTimed(t *testing.T) {
	j, err := job(t, []rec{{"p", "x", 0, 1, "A0:8 A1:8"}, {"p", "y", 0, 1, "A0:4"}})
	if err != nil {
		t.Fatal(err)
	}
	j.Timed = true
	w, err := j.Build("f", input.Options{})
	if err != nil || text(w, 0) != "A8 c1000 A8 c1000 A4" {
		t.Errorf("%v %s", err, text(w, 0))
	}
}

// A computation is not longer than a workload's may be. That is told.
func TestClockJumps(t *testing.T) {
	j := &Job{Timed: true}
	m, err := j.Member("p", "x", 0, 1)
	for i, at := range []int64{math.MinInt64, 0, workload.MaxNanos, math.MaxInt64} {
		o := workload.Op{Kind: workload.Coll, Func: workload.AllReduce, Count: 1, Type: "int8"}
		err = errors.Join(err, m.Add(&o, int64(i), at, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := j.Build("f", input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range w.Ops {
		if o.Kind == workload.Calc && o.Nanos != workload.MaxNanos {
			t.Errorf("a computation of %d ns", o.Nanos)
		}
	}
	const want = "2 gaps: between two calls, more than two years by their times; taken as two years"
	if !slices.Contains(w.Head.Source.Notes, want) {
		t.Errorf("notes %q", w.Head.Source.Notes)
	}
}

// More is refused before it is in memory.
func TestLimits(t *testing.T) {
	const most = 1000
	j := &Job{Limit: input.NewLimit(most)}
	add := func(comm string, n int) (err error) {
		m, err := j.Member("p", comm, 0, 1)
		for i := 0; i < n && err == nil; i++ {
			err = m.Add(&workload.Op{Kind: workload.Coll, Func: workload.AllReduce, Count: 1, Type: "int8"}, int64(i),
				int64(i), 0)
		}
		return err
	}
	if err := add("x", most+1); err == nil ||
		!strings.Contains(err.Error(), "more than 1000 calls, nodes or operations: --max-ops N") {
		t.Errorf("calls of a rank: %v", err)
	}
	if err := add("y", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Build("f", input.Options{}); err == nil ||
		!strings.Contains(err.Error(), "f: the job has more than 1000 calls, nodes or operations: --max-ops N") {
		t.Errorf("operations: %v", err)
	}
	var err error
	for n := 0; n < 6 && err == nil; n++ {
		err = add(fmt.Sprintf("z%d", n), most)
	}
	if err == nil || !strings.Contains(err.Error(), "more than 5000 records of kernels and calls: --max-ops N") {
		t.Errorf("records: %v", err)
	}
}

// Any records make a valid workload, or an error.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 0, 1, 0, 2, 1, 0, 0}, 2, true)
	f.Add([]byte{0, 0, 0, 2, 8, 1, 1, 0, 2, 9, 0, 0}, 0, false)
	f.Fuzz(func(t *testing.T, data []byte, ranks int, alone bool) {
		j := &Job{Timed: alone}
		for len(data) >= 6 {
			d := data[:6]
			data = data[6:]
			m, err := j.Member(string('a'+rune(d[0]%5)), string('x'+rune(d[1]%3)), int(d[2]%5), int(d[3]%5))
			if err != nil {
				return
			}
			kinds := []workload.Op{
				{Kind: workload.Coll, Func: workload.AllReduce}, {Kind: workload.Coll, Func: workload.AllGather},
				{Kind: workload.Send, Peer: int(d[5] % 5)}, {Kind: workload.Recv, Peer: int(d[5] % 5)},
			}
			o := kinds[d[4]%4]
			o.Count, o.Type = int64(d[4]>>6), "int8"
			if o.Kind != workload.Coll && o.Peer >= max(int(d[3]%5), 1) {
				continue // readers pass over such
			}
			if err := m.Add(&o, int64(d[5]%8), int64(d[5])*1000, int32(d[5]>>4)); err != nil {
				return
			}
		}
		w, err := j.Build("f", input.Options{Ranks: max(ranks%8, 0), OneForAll: alone})
		if err != nil {
			return
		}
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
