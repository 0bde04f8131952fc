// SPDX-License-Identifier: Apache-2.0

package horovod

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func text(w *workload.Workload) string {
	var out []string
	for _, o := range w.Ops {
		switch o.Kind {
		case workload.Coll:
			out = append(out, fmt.Sprintf("%s %d %s %v", o.Func, o.Count, o.Type, o.After))
		case workload.Calc:
			out = append(out, fmt.Sprintf("calc %d %v", o.Nanos, o.After))
		default:
			out = append(out, string(o.Kind))
		}
	}
	return strings.Join(out, "\n")
}

// The file is of Horovod's own writer: see testdata/README.md.
func TestRecorded(t *testing.T) {
	w, err := Read(input.Path("testdata/timeline.json"), input.Options{OneForAll: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Broadcast 2048 float32 []
calc 8148000 []
AllReduce 4001 float32 [2]
calc 3025000 []
AllReduce 50000 float16 [4]
calc 1677000 []
AllGather 4 int64 [6]
step
calc 5710000 [1 3 5 7]
AllReduce 4001 float32 [8]
calc 3033000 []
AllReduce 50000 float16 [10]
calc 1699000 []
AllGather 4 int64 [12]
step`
	if got := text(w); got != want || w.Head.Ranks != 4 {
		t.Errorf("%d ranks:\n%s\nwant\n%s", w.Head.Ranks, got, want)
	}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	if w.Ops[2].Name != "DistributedOptimizer.Allreduce/grad_3 and 2 more" ||
		w.Head.Source.Notes[0] != "6 tensors: several in one call" {
		t.Errorf("%q, notes %q", w.Ops[2].Name, w.Head.Source.Notes)
	}
}

// ev is events such as "B1@10:ALLREDUCE E1@20[8]": a phase, a tensor, a time, and a name or the shape at the end.
func ev(t *testing.T, text string) string {
	t.Helper()
	var out []string
	for _, e := range strings.Fields(text) {
		var phase string
		var pid, ts int
		if _, err := fmt.Sscanf(e, "%1s%d@%d", &phase, &pid, &ts); err != nil {
			t.Fatal(e, err)
		}
		more := ""
		if _, name, ok := strings.Cut(e, ":"); ok {
			more = fmt.Sprintf(`, "name": %q`, name)
		} else if at := strings.Index(e, "["); at > 0 {
			more = fmt.Sprintf(`, "args": {"dtype": "float32", "shape": %q}`, e[at:])
		}
		out = append(out, fmt.Sprintf(`{"ph": %q, "pid": %d, "ts": %d%s}`, phase, pid, ts, more))
	}
	return "[\n" + strings.Join(out, ",\n") + "]"
}

func read(text string, ranks int) (*workload.Workload, error) {
	return Read(input.Bytes("x", []byte(text)), input.Options{OneForAll: true, Ranks: ranks})
}

func TestCalls(t *testing.T) {
	one := func(pid, at int, end string) string {
		return strings.NewReplacer("#", fmt.Sprint(pid), "%",
			fmt.Sprint(at)).Replace("B#@%:ALLREDUCE B#@%:NCCL_ALLREDUCE ") + end
	}
	for name, test := range map[string]struct{ events, want, note string }{
		"two that begin and end together": {
			one(1, 10, "") + one(2, 11, "E1@90 E2@91 E1@92[8] E2@92[4]"), "AllReduce 12 float32 []\nstep",
			"2 tensors: several in one call",
		},
		"two that end at other times": { // threads of two streams
			one(1, 10, "") + one(2, 11, "E1@90 E1@92[8] E2@5000 E2@5001[4]"),
			"AllReduce 8 float32 []\ncalc 1000 []\nAllReduce 4 float32 [2]\nstep", "",
		},
		"two that begin at other times": {
			one(1, 10, "") + one(2, 4000, "E1@5000 E2@5001 E1@5002[8] E2@5002[4]"),
			"AllReduce 8 float32 []\ncalc 3990000 []\nAllReduce 4 float32 [2]\nstep", "",
		},
		"one after the other, soon": {
			one(1, 10, "E1@60 E1@61[8] ") + one(2, 62, "E2@100 E2@101[4]"),
			"AllReduce 8 float32 []\ncalc 52000 []\nAllReduce 4 float32 [2]\nstep", "",
		},
		"no activity": {"B1@10:BROADCAST E1@20[] B2@20:BROADCAST E2@30[2,3]",
			"Broadcast 1 float32 []\ncalc 10000 []\nBroadcast 6 float32 [2]\nstep", ""},
		"of others": {"B1@10:ALLTOALL E1@20[10] B2@20:REDUCESCATTER E2@30[7]",
			"AllToAll 3 float32 []\ncalc 10000 []\nReduceScatter 7 float32 [2]\nstep",
			"1 call: the ranks give parts of different sizes"},
		"layers": {"B1@10:ALLREDUCE B1@11:NCCL_REDUCESCATTER E1@12 B1@13:MPI_ALLREDUCE E1@14 E1@15[8]",
			"AllReduce 8 float32 []\nstep", "1 tensor: reduced in layers"},
		"adasum": {"B1@10:ADASUM E1@15[8]", "AllReduce 8 float32 []\nstep", "1 tensor: reduced by Adasum"},
		"a failed one": {"B1@10:ALLREDUCE E1@15 B1@16:ALLREDUCE E1@17[8]", "AllReduce 8 float32 []\nstep",
			"1 tensor: left out, the timeline does not say its type"},
		"one of tomorrow": {"B1@10:JUMP E1@15[8] B1@16:ALLREDUCE E1@17[8]", "AllReduce 8 float32 []\nstep",
			`1 tensor: left out, of "JUMP"`},
		"a barrier": {"B1@10:BARRIER E1@15 B1@16:ALLREDUCE E1@17[8]", "AllReduce 8 float32 []\nstep", ""},
		"not ended": {"B1@10:ALLREDUCE E1@15[8] B2@16:ALLREDUCE", "AllReduce 8 float32 []\nstep",
			"1 tensor: left out, the timeline ends before it"},
		"E alone": {"E1@10 B1@10:ALLREDUCE E1@15[8] Q1@3", "AllReduce 8 float32 []\nstep",
			`1 event: of phase "E without B"`},
	} {
		w, err := read(ev(t, test.events), 4)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := text(w); got != test.want || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"), test.note) ||
			test.note == "" && len(w.Head.Source.Notes) > 0 {
			t.Errorf("%s:\n%s\nwant\n%s\nnotes %q, want %q", name, got, test.want, w.Head.Source.Notes, test.note)
		}
	}
}

// Horovod before 0.17 leaves a comma at the end, and a job that was killed ends anywhere.
func TestCut(t *testing.T) {
	whole := strings.TrimSuffix(ev(t, "X1@1:1 B1@10:ALLREDUCE E1@15[8]"), "]")
	for _, text := range []string{whole, whole + ",\n", whole + `, {"ph": "B", "na`} {
		w, err := read(text, 0)
		if err != nil || w.Head.Ranks != 2 || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"),
			"without the end of its list") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("B1@10:x ", 30)
	for name, test := range map[string]struct {
		text string
		o    input.Options
		want string
	}{
		"nothing": {"[]", input.Options{OneForAll: true, Ranks: 2}, "no operation of Horovod has ended"},
		"ranks":   {ev(t, "B1@10:ALLREDUCE E1@15[8]"), input.Options{OneForAll: true}, "add --ranks N"},
		"all":     {ev(t, "B1@10:ALLREDUCE E1@15[8]"), input.Options{Ranks: 2}, "a timeline is of rank 0 alone"},
		"no sizes": {ev(t, "B1@10:ALLREDUCE E1@15"), input.Options{OneForAll: true, Ranks: 2},
			"no operation of a known type and size"},
		"deep":    {ev(t, deep), input.Options{OneForAll: true, Ranks: 2}, "are inside of each other"},
		"foreign": {"[1, 2]", input.Options{OneForAll: true, Ranks: 2}, "x: byte"},
	} {
		if _, err := Read(input.Bytes("x", []byte(test.text)), test.o); err == nil ||
			!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("testdata/timeline.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(
		`[{"ph": "B", "name": "ALLREDUCE", "pid": 1, "ts": 1}, {"ph": "E", "pid": 1, "ts": 2, "args": {"dtype": "bool", "shape": "[3, 4]"}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text, 4)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
