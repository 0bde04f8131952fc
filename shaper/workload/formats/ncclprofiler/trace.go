// SPDX-License-Identifier: Apache-2.0

package ncclprofiler

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// event is an event. Those that end have no args.
type event struct {
	Name  string  `json:"name"`
	Cat   string  `json:"cat"`
	Phase string  `json:"ph"`
	PID   int64   `json:"pid"`
	TS    float64 `json:"ts"` // us since the profiler of the process began
	Args  args    `json:"args"`
}

// args are the arguments of events about calls. Those of calls (API) begin with a small letter. Numbers of
// communicators need all 64 bits.
type args struct {
	Seq      *int64          `json:"SeqNum"`
	CommHash *uint64         `json:"CommHash"`
	Rank     *int            `json:"Rank"`
	Peer     *int            `json:"Peer"`
	Count    *int64          `json:"Count"` // and count: encoding/json takes both
	Type     json.RawMessage `json:"Datatype"`
	Root     int             `json:"root"`
}

// trace is one file while it is read. What belongs together is nested.
type trace struct {
	*reader
	process string // "" if it is not known yet
	place   place  // of the first task, before that of the file's name
	depth   int    // of groups
	group   int32
	began   float64 // of the group
	api     *task   // the call that is open
	tasks   []task
	seqs    map[placeFunc]int64
	known   bool // place is of a task
}

// place is a rank of a communicator.
type place struct {
	comm string
	rank int
}

type placeFunc struct {
	place place
	f     string
}

// task is a call or what NCCL makes of it.
type task struct {
	name    string
	count   int64
	typ     string
	root    int
	peer    int // -1: not known
	seq     int64
	at      float64
	group   int32
	place   place
	known   bool // place is
	task    bool // a task of NCCL was inside of the call, or it is one
	message bool
	isAPI   bool
}

// others are the categories of events that say nothing about calls.
var others = map[string]bool{"PROXY": true, "NET": true, "NET_IB": true, "NET_SOCK": true, "GPU": true,
	"KERNEL_LAUNCH": true,
	"CE_COLL":       true, "CE_SYNC": true, "CE_BATCH": true}

// event adds an event.
func (t *trace) event(e *event) error {
	if t.process == "" && e.Cat != "" {
		t.process = fmt.Sprintf("pid %d", e.PID)
	}
	begins := e.Phase == "b"
	switch e.Cat {
	case "GROUP_API", "GROUP":
		if !begins {
			t.depth = max(t.depth-1, 0)
			return nil
		}
		if t.depth == 0 {
			t.group++
			t.began = e.TS
		}
		t.depth++
	case "COLL_API", "P2P_API":
		if t.api != nil {
			t.tasks = append(t.tasks, *t.api)
			t.api = nil
		}
		if begins {
			t.api = t.task(e, e.Cat == "P2P_API")
			t.api.isAPI = true
		}
	case "COLL", "P2P":
		if begins {
			t.begin(e)
		}
	case "":
		// the end of the file: {}
	default:
		if !others[e.Cat] {
			t.strange[t.names.Shared(e.Cat)]++
		}
	}
	return t.job.Limit.Check(len(t.tasks))
}

func (t *trace) task(e *event, message bool) *task {
	a := &e.Args
	out := &task{name: t.names.Shared(strings.TrimPrefix(e.Name, "nccl")), typ: t.names.Shared(typeOf(a.Type)),
		root: a.Root, peer: -1, seq: -1,
		at: e.TS, group: t.group, message: message, count: -1}
	if a.Count != nil {
		out.count = *a.Count
	}
	if out.at <= 0 {
		out.at = t.began
	}
	return out
}

// begin adds the beginning of a task. If it is inside of a call, it says what the call does not.
func (t *trace) begin(e *event) {
	c := t.api
	if c == nil || c.task || c.message != (e.Cat == "P2P") {
		t.tasks = append(t.tasks, *t.task(e, e.Cat == "P2P"))
		c = &t.tasks[len(t.tasks)-1]
		t.bytes = true
	}
	c.task = true
	a := &e.Args
	if a.Seq != nil {
		c.seq = *a.Seq
	}
	if a.Peer != nil {
		c.peer = *a.Peer
	}
	if e.TS > 0 {
		c.at = e.TS
	}
	if a.CommHash != nil && a.Rank != nil {
		c.place = place{t.names.Shared(strconv.FormatUint(*a.CommHash, 10)), *a.Rank}
		c.known = true
		if !t.known {
			t.place, t.known = c.place, true
		}
	}
}

// Names of files: NAME_COMM_RANK.json since 2.27, NAME-HOST-PID.txt before.
var (
	perRank    = regexp.MustCompile(`_(\d+)_(\d+)\.json(\.gz)?$`)
	perProcess = regexp.MustCompile(`-([^-]+-\d+)\.txt(\.gz)?$`)
)

// fileOf is what the name of a file says.
func fileOf(name string) (process string, h place) {
	name = filepath.Base(name)
	if m := perRank.FindStringSubmatch(name); m != nil {
		if rank, err := strconv.Atoi(m[2]); err == nil {
			h = place{m[1], rank}
		}
	}
	if m := perProcess.FindStringSubmatch(name); m != nil {
		process = m[1]
	}
	return process, h
}

// typeOf is the type of a name such as ncclFloat32, or of a number, as the profiler of 2.23 writes it; "" if it is
// none.
func typeOf(raw json.RawMessage) string {
	var number int
	if json.Unmarshal(raw, &number) == nil {
		if string(raw) == "null" {
			return ""
		}
		return workload.TypeOf(number)
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(name, "nccl"))
}

// finish adds the calls of the file to the job. A call whose task the profiler has not recorded is of the communicator
// of the others in the file.
func (t *trace) finish() error {
	if t.api != nil {
		t.tasks = append(t.tasks, *t.api)
	}
	t.seqs = map[placeFunc]int64{}
	for i := range t.tasks {
		c := &t.tasks[i]
		if !c.known {
			if c.place = t.place; t.place.comm == "" {
				t.unplaced++
				continue
			}
		}
		if err := t.add(c); err != nil {
			return err
		}
	}
	return nil
}

func (t *trace) add(c *task) error {
	o := workload.Op{Kind: workload.Coll, Type: c.typ, Count: c.count}
	switch _, err := workload.TypeSize(c.typ); {
	case err != nil || c.count < 0:
		t.untyped++
		return nil
	case c.message && c.name != "Send" && c.name != "Recv":
		t.unknown[c.name]++
		return nil
	case c.message && c.peer < 0:
		t.peerless++
		return nil
	case c.message:
		o.Kind, o.Peer = workload.Send, c.peer
		if c.name == "Recv" {
			o.Kind = workload.Recv
		}
	default:
		if o.Func, err = workload.ParseFunc(c.name); err != nil {
			t.unknown[c.name]++
			return nil
		}
		if o.Func.Rooted() && c.isAPI {
			o.Root = c.root
		} else if o.Func.Rooted() {
			t.rootless++
		}
	}
	m, err := t.job.Member(t.process, c.place.comm, c.place.rank, 0)
	if err != nil {
		return err
	}
	seq := c.seq
	if seq < 0 && !c.message { // in the order of the file
		k := placeFunc{c.place, c.name}
		seq = t.seqs[k]
		t.seqs[k]++
	}
	if c.at <= 0 || c.at > 1<<53 || math.IsNaN(c.at) {
		t.untimed = true
		c.at = 0
	}
	return m.Add(&o, seq, int64(math.Round(c.at*1000)), c.group)
}
