// SPDX-License-Identifier: Apache-2.0

package horovod

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// tensor is a tensor while it is negotiated or moved.
type tensor struct {
	number int32
	open   []string // what has begun and not ended
	ready  int64    // end of the negotiation, -1 if there was none, in us
	part   part
	begun  *run
	wire   string // the activity that moves it
}

// part is what was done with a tensor once. Times are in us.
type part struct {
	elements          int64 // of what comes out
	ready, start, end int64
	tensor            int32 // its number
	begun, ended      int32 // numbers of the runs of its activity; 0: it had none
	fn, typ           uint8 // in funcs and types; 0: none that is known
}

// run are events of several tensors that follow each other.
type run struct {
	number int32
	last   int64
}

// together is the longest time in us between the events of two tensors that are copied and moved in one buffer: Horovod
// writes them in a loop.
const together = 500

// funcs are what Horovod's operations are in NCCL.
var funcs = []workload.Func{"", workload.AllReduce, workload.AllGather, workload.Broadcast, workload.AllToAll,
	workload.ReduceScatter}

// operations are Horovod's, with their place in funcs.
var operations = map[string]uint8{"ALLREDUCE": 1, "ADASUM": 1, "ALLGATHER": 2, "BROADCAST": 3, "ALLTOALL": 4,
	"REDUCESCATTER": 5}

// wires are the beginnings of activities that move data between ranks.
var wires = []string{"NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_"}

func isWire(activity string) bool {
	return slices.ContainsFunc(wires, func(w string) bool { return strings.HasPrefix(activity, w) })
}

const negotiate = "NEGOTIATE_"

// event takes an event.
func (r *reader) event(e *event) error {
	ts := int64(0)
	if e.TS >= 0 && e.TS < 1<<53 {
		ts = int64(math.Round(e.TS))
	} else {
		r.untimed++
	}
	switch e.Phase {
	case "M":
		r.metadata(e)
	case "B":
		return r.begin(e, ts)
	case "E":
		return r.end(e, ts)
	case "X": // a rank is ready
		if n, err := strconv.Atoi(e.Name); err == nil && n >= 0 && n < workload.MaxRanks {
			r.ranks = max(r.ranks, n+1)
		}
	case "i", "I", "": // CYCLE_START
	default:
		r.strange[e.Phase]++
	}
	return nil
}

func (r *reader) metadata(e *event) {
	var args struct {
		Name string `json:"name"`
	}
	if e.Name == "process_name" && json.Unmarshal(e.Args, &args) == nil && args.Name != "" {
		r.names[e.PID] = args.Name
	}
}

func (r *reader) tensor(pid int64) (*tensor, error) {
	t := r.tensors[pid]
	if t == nil {
		if err := r.options.Limit.Add(); err != nil {
			return nil, err
		}
		t = &tensor{ready: -1, number: int32(len(r.pids))}
		r.tensors[pid] = t
		r.pids = append(r.pids, pid)
	}
	return t, nil
}

func (r *reader) begin(e *event, ts int64) error {
	t, err := r.tensor(e.PID)
	if err != nil {
		return err
	}
	if len(t.open) > 16 {
		return fmt.Errorf("%d events of a tensor are inside of each other", len(t.open))
	}
	switch {
	case strings.HasPrefix(e.Name, negotiate):
		t.open = t.open[:0] // the end of the one before was lost
		r.negotiated = true
	case len(t.open) == 0:
		t.part = part{tensor: t.number, fn: operations[e.Name], ready: ts, start: ts}
		if t.ready >= 0 {
			t.part.ready = t.ready
		}
		t.ready, t.begun, t.wire = -1, nil, ""
	case isWire(e.Name) && t.begun == nil:
		t.part.start = ts
		t.begun, t.wire = r.join(r.begins, e.Name, ts), r.texts.Shared(e.Name)
		t.part.begun = t.begun.number
	case isWire(e.Name) && e.Name != t.wire:
		r.layered++
	}
	t.open = append(t.open, r.texts.Shared(e.Name))
	return nil
}

// join is the run of events of an activity to which an event at a time belongs.
func (r *reader) join(runs map[string]*run, name string, ts int64) *run {
	at := runs[name]
	if at == nil || ts-at.last > together || ts < at.last {
		r.runs++
		at = &run{number: r.runs}
		runs[name] = at
	}
	at.last = ts
	return at
}

func (r *reader) end(e *event, ts int64) error {
	t, err := r.tensor(e.PID)
	if err != nil {
		return err
	}
	if len(t.open) == 0 {
		r.strange["E without B"]++
		return nil
	}
	name := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	switch {
	case strings.HasPrefix(name, negotiate):
		t.ready = ts
	case len(t.open) > 0:
		if name == t.wire && t.part.ended == 0 {
			t.part.ended = r.join(r.ends, name, ts).number
			if r.begins[name] == t.begun {
				delete(r.begins, name) // what begins now is another call
			}
		}
	default:
		return r.finish(t, name, ts, e.Args)
	}
	return nil
}

// finish takes the end of an operation, which has the type and the shape.
func (r *reader) finish(t *tensor, name string, ts int64, args json.RawMessage) error {
	if t.part.fn == 0 {
		if name != "BARRIER" && name != "JOIN" {
			r.unknown[name]++
		}
		return nil
	}
	if name == "ADASUM" {
		r.adasum++
	}
	t.part.end = ts
	t.part.typ, t.part.elements = sizeOf(args)
	r.parts = append(r.parts, t.part)
	return r.options.Limit.AddSmall()
}

// types are NCCL's types of Horovod's, with how many elements of them one is.
var types = []struct {
	horovod, name string
	n             int64
}{
	{}, {"uint8", "uint8", 1}, {"int8", "int8", 1}, {"uint16", "uint8", 2}, {"int16", "uint8", 2},
	{"int32", "int32", 1}, {"int64", "int64", 1},
	{"float16", "float16", 1}, {"bfloat16", "bfloat16", 1}, {"float32", "float32", 1}, {"float64", "float64", 1},
	{"bool", "uint8", 1},
}

// sizeOf is the type of the arguments of an end, in types, and the number of elements; 0 if they do not say it.
func sizeOf(raw json.RawMessage) (typ uint8, elements int64) {
	var args struct {
		Type  string `json:"dtype"`
		Shape string `json:"shape"`
	}
	if json.Unmarshal(raw, &args) != nil || args.Type == "" {
		return 0, 0
	}
	for i := range types {
		if types[i].horovod == args.Type {
			typ = uint8(i)
		}
	}
	shape, bracket := strings.CutPrefix(strings.TrimSpace(args.Shape), "[")
	shape, end := strings.CutSuffix(shape, "]")
	if typ == 0 || !bracket || !end {
		return 0, 0
	}
	elements = types[typ].n
	for _, dim := range strings.Split(shape, ",") {
		if dim = strings.TrimSpace(dim); dim == "" && shape == "" {
			break
		}
		n, err := strconv.ParseInt(dim, 10, 64)
		if err != nil || n < 0 || n > 0 && elements > workload.MaxMessage/n {
			return 0, 0
		}
		elements *= n
	}
	return typ, elements
}
