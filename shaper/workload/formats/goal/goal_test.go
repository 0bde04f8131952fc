// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func read(text string) (*workload.Workload, error) {
	return Read(input.Bytes("x.goal", []byte(text)), input.Options{})
}

const ring = `// a ring of two
num_ranks 2

rank 0 { /* the first
one */ l1: calc 1000 cpu 2
l2: send 4096b to 1 tag 7 cpu 0 nic 0; l3: recv 8 from 1 tag 8
l2 requires l1
l3 irequires l2 # starts with l2
}
rank 1 {
a : recv 4096b from 0 tag 7
b : send 8b to 0 tag 8
b requires a }
`

func TestRead(t *testing.T) {
	w, err := read(ring)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []workload.Op{
		{Ranks: workload.Ranks{0}, ID: 1, Kind: workload.Calc, Stream: "cpu2", Nanos: 1000},
		{Ranks: workload.Ranks{1}, ID: 1, Kind: workload.Recv, Stream: "0>1", Comm: "0>1", Count: 1024,
			Type: "float32"},
		{Ranks: workload.Ranks{0}, ID: 2, Kind: workload.Send, Stream: "0>1", Comm: "0>1", Count: 1024, Type: "float32",
			Peer: 1, After: []int{1}},
		{Ranks: workload.Ranks{1}, ID: 2, Kind: workload.Send, Stream: "1>0", Comm: "1>0", Count: 2, Type: "float32",
			Peer: 1, After: []int{1}},
		{Ranks: workload.Ranks{0}, ID: 3, Kind: workload.Recv, Stream: "1>0", Comm: "1>0", Count: 2, Type: "float32",
			After: []int{1}},
	}
	if d := cmp.Diff(want, w.Ops); d != "" {
		t.Error(d)
	}
}

// Messages of few tags have a communicator for each tag of two ranks, so that they do not wait for each other.
func TestTags(t *testing.T) {
	w, err := read("num_ranks 2\nrank 0 {\na: send 4b to 1 tag 1\nb: send 8b to 1 tag 2\nc: recv 4b from 1 tag 3\n}\n" +
		"rank 1 {\na: recv 8b from 0 tag 2\nb: recv 4b from 0 tag 1\nb requires a\nc: send 4b to 0 tag 3\n}")
	if err != nil || len(w.Head.Source.Notes) != 0 {
		t.Fatalf("%v; notes %q", err, w.Head.Source.Notes)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	var comms []string
	for _, c := range w.Head.Comms {
		comms = append(comms, c.Name+" "+c.Ranks.String())
	}
	if want := []string{"0>1#1 0-1", "0>1#2 0-1", "1>0 1,0"}; !slices.Equal(comms, want) {
		t.Errorf("communicators %q, want %q", comms, want)
	}
	var out bytes.Buffer
	if err := Write(&out, w); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"send 4b to 1 tag 0 cpu 0 nic 0", "recv 8b from 0 tag 1 cpu 0 nic 0",
		"send 4b to 0 tag 2 cpu 0 nic 0"} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

// A receive of any tag takes the first message of that rank, whatever its tag: Schedgen writes such receives of MPI's
// traces.
func TestAnyTag(t *testing.T) {
	const text = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 5\nl2: send 16b to 1 tag 6\nl2 requires l1\nl3: recv 4b from 1 tag 9\n}\n" +
		"rank 1 {\nl1: recv 8b from 0 tag -1\nl2: recv 16b from 0 tag 4294967295\nl2 requires l1\nl3: send 4b to 0 tag 9\n}\n"
	w, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := check.Run(t.Context(), ix); err != nil || len(findings) > 0 || len(w.Head.Comms) != 2 {
		t.Errorf("%v, %v; communicators %+v", findings, err, w.Head.Comms)
	}
	if notes := strings.Join(w.Head.Source.Notes, "\n"); !strings.Contains(notes, "2 receives of any tag (-1)") {
		t.Errorf("notes %q", notes)
	}
}

// NCCL matches in order, so receives are put into the order of the sends if there are too many tags for communicators.
func TestReceivesAreOrderedByTags(t *testing.T) {
	var sends, receives strings.Builder
	for i := range maxSeparate + 1 {
		fmt.Fprintf(&sends, "l%d: send 4b to 1 tag %d\n", i, i)
		fmt.Fprintf(&receives, "l%d: recv 4b from 0 tag %d\n", i, i)
	}
	file := func(require string) (*workload.Workload, error) {
		return read("num_ranks 2\nrank 0 {\na: send 4b to 1 tag a\nb: send 8b to 1 tag b\n" + sends.String() + "}\n" +
			"rank 1 {\na: recv 8b from 0 tag b\nb: recv 4b from 0 tag a\n" + require + receives.String() + "}")
	}
	w, err := file("")
	if err != nil {
		t.Fatal(err)
	}
	var counts []int64
	for _, o := range w.Ops {
		if o.Kind == workload.Recv {
			counts = append(counts, o.Count)
		}
	}
	if !slices.Equal(counts[:3], []int64{1, 2, 1}) || len(w.Head.Source.Notes) != 1 || len(w.Head.Comms) != 1 {
		t.Errorf("received: %v; notes %q", counts[:3], w.Head.Source.Notes)
	}
	// Here the receiver itself requires the other order.
	w, err = file("b requires a\n")
	if err != nil || len(w.Head.Source.Notes) != 2 || !strings.HasPrefix(w.Head.Source.Notes[1], "1 pair of ranks") {
		t.Errorf("%v; notes %q", err, w.Head.Source.Notes)
	}
}

// A ring that sends and only then receives goes on in GOAL, where sends end early. With NCCL all ranks would wait.
func TestReceiveAfterSend(t *testing.T) {
	w, err := read(
		"num_ranks 2\nrank 0 {\nc: calc 5\na: send 4b to 1\na requires c\nb: recv 4b from 1\nb requires a\n}\n" +
			"rank 1 {\na: send 4b to 0\nb: recv 4b from 0\nb requires a\n}")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range w.Ops {
		if o.Kind == workload.Recv && o.Ranks[0] == 0 && !slices.Equal(o.After, []int{1}) {
			t.Errorf("the receive is %+v, want after the computation, 1", o)
		}
	}
	if len(w.Head.Source.Notes) != 1 || !strings.HasPrefix(w.Head.Source.Notes[0], "2 receives: each requires a send") {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

// A send that starts when the one before it to the same rank has started waits for that one, and for nothing more: the
// requirements of a long row of sends do not add up.
func TestSendsInARow(t *testing.T) {
	const n = 12_000 // more than maxRequirements
	var a, b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&a, "l%d: send 4b to 1\n", i)
		fmt.Fprintf(&b, "l%d: recv 4b from 0\n", i)
		if i > 1 {
			fmt.Fprintf(&a, "l%d irequires l%d\n", i, i-1)
		}
		if i > 8 {
			fmt.Fprintf(&a, "l%d requires l%d\n", i, i-8)
		}
	}
	w, err := read("num_ranks 2\nrank 0 {\n" + a.String() + "}\nrank 1 {\n" + b.String() + "}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range w.Ops {
		if o.Kind == workload.Send && o.ID == n && !slices.Equal(o.After, []int{n - 8, n - 1}) {
			t.Errorf("the last send is after %v", o.After)
		}
	}
}

// What was read and written is read again, equal.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "ranks")
		blocks := make([]strings.Builder, n)
		count := make([]int, n)
		task := func(r int, text string) {
			count[r]++
			fmt.Fprintf(&blocks[r], "l%d: %s cpu %d\n", count[r], text, rapid.IntRange(0, 1).Draw(t, "cpu"))
			for range rapid.IntRange(0, 2).Draw(t, "requirements") {
				if count[r] > 1 {
					fmt.Fprintf(&blocks[r], "l%d requires l%d\n", count[r], rapid.IntRange(1, count[r]-1).Draw(t, "of"))
				}
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "tasks") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			amount := rapid.Int64Range(0, 1<<40).Draw(t, "amount")
			if from == to {
				task(from, fmt.Sprintf("calc %d", amount))
				continue
			}
			task(from, fmt.Sprintf("send %db to %d tag 0", amount, to))
			task(to, fmt.Sprintf("recv %db from %d tag 0", amount, from))
		}
		text := fmt.Sprintf("num_ranks %d\n", n)
		for r := range blocks {
			text += fmt.Sprintf("rank %d {\n%s}\n", r, blocks[r].String())
		}
		first, err := read(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if err := first.Validate(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Write(&out, first); err != nil {
			t.Fatal(err)
		}
		again, err := read(out.String())
		if err == nil {
			again.Head.Source = first.Head.Source // which GOAL has no place for
		}
		if err != nil || cmp.Diff(first, again) != "" {
			t.Fatalf("%v %s\n%s\n%s", err, cmp.Diff(first, again), text, out.String())
		}
	})
}

// Streams, waits and groups become requirements.
func TestWrite(t *testing.T) {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 2}, Ops: []workload.Op{
		{ID: 1, Kind: workload.Calc, Stream: "c", Nanos: 5, Ranks: workload.Ranks{0}},
		{Kind: workload.Calc, Stream: "c", Nanos: 6, Ranks: workload.Ranks{0}},
		{Kind: workload.Group, Stream: "n", Ops: []workload.Op{
			{Kind: workload.Send, Peer: 1, Relative: true, Count: 3, Type: "float32"},
			{Kind: workload.Recv, Peer: 1, Relative: true, Count: 3, Type: "float32"},
		}},
		{Kind: workload.Wait, Ranks: workload.Ranks{0}},
		{Kind: workload.Calc, Stream: "d", Nanos: 7, Ranks: workload.Ranks{0}},
		{Kind: workload.Calc, Stream: "d", Nanos: 8, Ranks: workload.Ranks{0}},
		{Kind: workload.Calc, Stream: "cpu0", Nanos: 9, Ranks: workload.Ranks{0}},
		{Kind: workload.Calc, Stream: "cpu0", Nanos: 10, Ranks: workload.Ranks{0}},
		{Kind: workload.Step},
	}}
	var out bytes.Buffer
	if err := Write(&out, w); err != nil {
		t.Fatal(err)
	}
	rank0, _, _ := strings.Cut(out.String(), "rank 1")
	lines := strings.Split(strings.TrimSpace(rank0), "\n")
	for _, want := range []string{"l1: calc 5 cpu 100", "l2 requires l1", "l3: send 12b to 1 tag 0 cpu 0 nic 0",
		"l4: recv 12b from 1 tag 0 cpu 0 nic 0",
		"l5: calc 7 cpu 101", "l5 requires l2", "l5 requires l3", "l5 requires l4",
		"l6 requires l5", "l7 requires l2", "l8: calc 10 cpu 0", "l8 requires l2", "l8 requires l3"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, rank0)
		}
	}
	w.Ops = []workload.Op{{Kind: workload.Coll, Func: workload.AllReduce, Count: 1, Type: "int8"}}
	if err := Write(&out, w); err == nil ||
		!strings.Contains(err.Error(), "coll AllReduce: GOAL has only computations") ||
		!strings.Contains(err.Error(), "--goal OUT.goal") {
		t.Errorf("a collective: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                                           "no num_ranks",
		"rank 0 {\n}":                                                                "x.goal:1: \"rank 0 {\": num_ranks N is expected first",
		"num_ranks 0":                                                                "a number from 1 to",
		"num_ranks 99999999999":                                                      "a number from 1 to",
		"num_ranks 1\nrank 0 {\nl1: calc 5":                                          "the file ends within rank 0: it was cut",
		"num_ranks 2\nrank 0 {\n}":                                                   "there is no rank 1",
		"num_ranks 1\nrank 1 {\n}":                                                   "x.goal:2: rank 1: num_ranks is 1",
		"num_ranks 1\nrank 0 {\n}\nrank 0 {\n}":                                      "rank 0 is there twice",
		"num_ranks 1\nrank 0 {\nl1: calc x\n}":                                       `x.goal:3: l1: "x" is no amount`,
		"num_ranks 1\nrank 0 {\nl1: jump 5\n}":                                       `"jump" is no task`,
		"num_ranks 1\nrank 0 {\nl1: calc 5\nl1: calc 5\n}":                           "x.goal:4: the label l1 is there twice",
		"num_ranks 1\nrank 0 {\nl1: calc 5\nl1 requires l2\n}":                       "there is no label l2",
		"num_ranks 1\nrank 0 {\nl1: calc 5\nl1 requires l1\n}":                       "l1 requires itself",
		"num_ranks 2\nrank 0 {\nl1: send 5b to 2\n}\nrank 1 {\n}":                    "rank 2: another rank from 0 to 1",
		"num_ranks 2\nrank 0 {\nl1: send 5b to 0\n}\nrank 1 {\n}":                    "another rank",
		"num_ranks 2\nrank 0 {\nl1: recv 5b from -1 tag -1\n}\nrank 1 {\n}":          "l1: a receive from any rank (-1)",
		"num_ranks 2\nrank 0 {\nl1: send 5b tag 3\n}\nrank 1 {\n}":                   "the other rank is missing",
		"num_ranks 2\nrank 0 {\nl1: send 5b to 1 tag\n}\nrank 1 {\n}":                "tag has no value",
		"num_ranks 2\nrank 0 {\nl1: send 5b to 1 color 3\n}\nrank 1 {\n}":            `"color" is not known`,
		"num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\na requires b\nb requires a\n}": "rank 0: tasks require each other, some of a, b",
		"num_ranks 1\n}":                                                             "} without rank",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(ring)
	f.Add("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\na irequires b\nb irequires a\n}")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text)
		if err != nil {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}

// What NCCL has no place for is counted.
func TestNICs(t *testing.T) {
	w, err := Read(input.Bytes("x",
		[]byte("num_ranks 2\nrank 0 {\nl1: send 8b to 1 nic 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n")), input.Options{})
	if err != nil || !slices.Contains(w.Head.Source.Notes, "1 message: its nic is not used; NCCL chooses the NICs") {
		t.Errorf("%v, %+v", err, w)
	}
}
