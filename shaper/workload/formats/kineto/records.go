// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// Times are in ns.

// record is a call of a process group on the host.
type record struct {
	start, end int64
	thread     input.Text
	external   input.Text
	function   int64 // the id of the record function, as in an execution trace; -1 if there is none
	annotation bool  // an annotation such as nccl:all_reduce, not record_param_comms
	call       pytorch.Call
	open       bool // the sizes of the call are not set yet: tensors is what is known
	tensors
}

// kernel is a kernel of NCCL on the GPU.
type kernel struct {
	start, end  int64
	stream      input.Text
	external    input.Text
	correlation int64
	call        pytorch.Call // without a name if the kernel does not say
}

// launch is a call of the CUDA runtime that launches a kernel or waits for an event.
type launch struct {
	start       int64
	correlation int64
	thread      input.Text
}

// started is the start of a kernel. A trace has millions.
type started struct{ start, correlation int64 }

// step is a ProfilerStep#number.
type step struct {
	number     int
	start, end int64
}

// sync is what a wait for an event waits for, on newer versions of PyTorch.
type sync struct {
	stream input.Text
	record int64 // the correlation of the call that recorded the event
}

// rank is the kept part of the trace of one rank.
type rank struct {
	file        string
	limit       *input.Limit
	counted     int // of what is kept, towards the limit
	number      int // -1 if the trace does not say
	world       int // 0 if the trace does not say
	hardware    string
	ncclVersion string
	groups      map[string]pytorch.Group

	first, last int64 // of all events
	records     []record
	operators   []operator // in order, once all are read
	kernels     []kernel
	launches    []launch // of kernels
	waits       []launch
	syncs       map[int64]sync // by correlation of the wait
	computes    []started      // kernels that are not NCCL's
	steps       []step
	ahead       bool        // the host was ahead of the GPU: the steps are those of the GPU
	unreadable  int         // events that were not understood
	others      int         // calls of other backends than NCCL's
	other       string      // one of them
	texts       input.Names // that many events have
	lists       map[string]workload.Ranks
	cutRanks    map[string]bool       // groups whose lists of ranks are cut
	exchanged   map[string]*exchanged // without a process group, by library
	libraries   libraries
}

func newRank(file string, limit *input.Limit) *rank {
	return &rank{
		file: file, limit: limit, number: -1, first: math.MaxInt64, last: math.MinInt64,
		groups: map[string]pytorch.Group{}, syncs: map[int64]sync{}, lists: map[string]workload.Ranks{},
		cutRanks: map[string]bool{}, exchanged: map[string]*exchanged{}, libraries: libraries{},
	}
}

// readRank reads the trace of one rank.
func readRank(f input.File, limit *input.Limit) (*rank, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := newRank(f.Name, limit)
	j := in.JSON()
	events := func() error { return j.Array(func() error { return r.readEvent(j) }) }
	if start, err := in.Peek(1); err == nil && start[0] == '[' {
		return r, events()
	}
	found := false
	err = j.Object(func(key string) error {
		switch key {
		case "traceEvents":
			found = true
			return events()
		case "distributedInfo":
			return r.readInfo(j)
		case "deviceProperties":
			return r.readDevices(j)
		}
		return j.Skip()
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no traceEvents: this is no trace of Kineto", f.Name)
	}
	return r, err
}

// readInfo reads distributedInfo.
func (r *rank) readInfo(j *input.JSON) error {
	var info struct {
		Rank    input.Text `json:"rank"`
		World   input.Text `json:"world_size"`
		Version input.Text `json:"nccl_version"`
		Groups  []struct {
			Name  input.Text      `json:"pg_name"`
			Desc  input.Text      `json:"pg_desc"`
			Size  input.Text      `json:"pg_size"`
			Ranks json.RawMessage `json:"ranks"`
		} `json:"pg_config"`
	}
	if err := j.Decode(&info); err != nil {
		return err
	}
	r.number, r.world = int(info.Rank.Number(-1)), int(info.World.Number(0))
	r.ncclVersion = string(info.Version)
	for _, g := range info.Groups {
		r.groups[string(g.Name)] = pytorch.Group{
			Name:  pytorch.GroupName(string(g.Name), string(g.Desc)),
			Size:  int(g.Size.Number(0)),
			Ranks: pytorch.ParseRanks(strings.Trim(string(g.Ranks), `"`), -1, 0, 0),
		}
	}
	return nil
}

func (r *rank) readDevices(j *input.JSON) error {
	return j.Array(func() error {
		var device struct {
			Name input.Text `json:"name"`
		}
		if err := j.Decode(&device); err != nil {
			return err
		}
		r.hardware = string(device.Name)
		return nil
	})
}

// maxLaunches is the maximum number of launches of kernels, and half the number of kernels, so that they take at most
// 256 MB. In 1 GiB of a trace, there are about 1 million.
const maxLaunches = 4 << 20

// readEvent reads one element of traceEvents. An event with a field of another type than expected is counted, not kept.
func (r *rank) readEvent(j *input.JSON) error {
	var e event
	err := j.Decode(&e)
	switch {
	case input.IsWrongType(err), err == nil && e.Phase == "X" && e.Start == noTime:
		r.unreadable++
		return nil
	case err != nil:
		return err
	case e.Phase != "X":
		return nil
	}
	e.TID = input.Text(r.shared(string(e.TID)))
	r.keep(&e)
	if max(len(r.computes)/2, len(r.launches)) > maxLaunches {
		return fmt.Errorf("more than %d launches of kernels: record fewer steps", maxLaunches)
	}
	kept := len(r.records) + len(r.operators) + len(r.kernels) + len(r.waits)
	for ; r.counted < kept; r.counted++ {
		if err := r.limit.Add(); err != nil {
			return err
		}
	}
	return nil
}

// keep keeps the needed fields of the event.
func (r *rank) keep(e *event) {
	start, end := int64(e.Start), int64(e.Start)+max(int64(e.Dur), 0)
	cat := strings.ToLower(e.Cat)
	if strings.HasPrefix(cat, "trace") {
		return // the whole window of the profiler, and signposts
	}
	r.first, r.last = min(r.first, start), max(r.last, end)
	switch {
	case cat == "kernel":
		r.keepKernel(e, start, end)
	case cat == "gpu_memcpy" && strings.HasPrefix(e.Name, "Memcpy PtoP"):
		r.exchange(peerCopies, e.Name, end-start)
	case cat == "cuda_sync" && strings.HasPrefix(e.Name, "Stream Wait"):
		a := e.args(r)
		r.syncs[a.Correlation.Number(-1)] = sync{stream: a.SyncStream, record: a.SyncRecord.Number(-1)}
	case strings.HasSuffix(e.Name, "StreamWaitEvent"):
		r.waits = append(r.waits, launch{start, e.args(r).Correlation.Number(-1), e.TID})
	case strings.HasPrefix(cat, "cuda_") && strings.Contains(e.Name, "Launch"):
		r.launches = append(r.launches, launch{start, e.args(r).Correlation.Number(-1), e.TID})
	case strings.HasPrefix(e.Name, "c10d::"):
		r.keepOperator(e, start, end)
	case e.Name == "record_param_comms", strings.HasPrefix(e.Name, "nccl:") && !strings.HasPrefix(cat, "gpu"):
		r.keepRecord(e, start, end)
	case backends.MatchString(e.Name) && !strings.HasPrefix(cat, "gpu"):
		r.others++
		r.other = e.Name
	case strings.HasPrefix(e.Name, "ProfilerStep#") && !strings.HasPrefix(cat, "gpu"):
		var s = step{start: start, end: end}
		if _, err := fmt.Sscanf(e.Name, "ProfilerStep#%d", &s.number); err == nil {
			r.steps = append(r.steps, s)
		}
	}
}

// args reads the event's arguments. What is not understood is counted.
func (e *event) args(r *rank) (a args) {
	if len(e.Args) > 0 && json.Unmarshal(e.Args, &a) != nil {
		r.unreadable++
	}
	a.Stream, a.SyncStream = input.Text(r.shared(string(a.Stream))), input.Text(r.shared(string(a.SyncStream)))
	return a
}

// shared is one copy of a text that many events have.
func (r *rank) shared(text string) string { return r.texts.Shared(text) }

// ranksOf are the ranks of a group by the arguments of a call, one copy of each list.
func (r *rank) ranksOf(a *args) workload.Ranks {
	key := strings.Join([]string{string(a.GroupRanks), string(a.RankStart), string(a.RankStride), string(a.GroupSize)},
		" ")
	known, ok := r.lists[key]
	if !ok {
		known = pytorch.ParseRanks(string(a.GroupRanks), a.RankStart.Number(-1), a.RankStride.Number(0),
			a.GroupSize.Number(0))
		if len(r.lists) < maxNames {
			r.lists[key] = known
		}
	}
	return known
}

func (r *rank) keepKernel(e *event, start, end int64) {
	a := e.args(r)
	library := r.libraries.of(e.Name)
	if library != processGroup {
		r.exchange(library, e.Name, end-start)
		r.computes = append(r.computes, started{start, a.Correlation.Number(-1)})
		return
	}
	k := kernel{start: start, end: end, stream: a.Stream, external: a.External, correlation: a.Correlation.Number(-1)}
	if a.Collective != "" {
		k.call = r.call(&a)
	}
	r.kernels = append(r.kernels, k)
}

func (r *rank) keepRecord(e *event, start, end int64) {
	a := e.args(r)
	rec := record{start: start, end: end, thread: e.TID, external: a.External, function: a.Function.Number(-1)}
	if rec.annotation = e.Name != "record_param_comms"; rec.annotation {
		r.open(&rec, &a, e.Name)
	} else {
		rec.call = r.call(&a)
	}
	r.records = append(r.records, rec)
}

// peerOf reads the peer of an annotation such as nccl:send 0->1 or nccl:recv 1<-0.
func peerOf(name string) int {
	for _, arrow := range []string{"->", "<-"} {
		if _, peer, found := strings.Cut(name, arrow); found {
			return int(input.Text(strings.TrimSpace(peer)).Number(-1))
		}
	}
	return -1
}

// call is the call that the arguments describe.
func (r *rank) call(a *args) pytorch.Call {
	c := pytorch.Call{
		Name: r.shared(string(a.Collective)), DType: r.shared(string(a.DType)),
		Peer: int(a.Dst.Number(a.Src.Number(-1))),
	}
	c.InSplit, c.InCut = pytorch.ParseParts(string(a.InSplit))
	c.OutSplit, c.OutCut = pytorch.ParseParts(string(a.OutSplit))
	if c.InCut || c.OutCut {
		c.Row = a.shapes().row()
	}
	name := cmp.Or(a.GroupName, a.GroupID)
	c.Group = pytorch.Group{
		Name: r.shared(pytorch.GroupName(string(name), string(a.GroupDesc))), Size: int(a.GroupSize.Number(0)),
		Ranks: r.ranksOf(a),
	}
	if known, ok := r.groups[string(name)]; ok && c.Group.Ranks == nil {
		c.Group = known
	}
	if c.Group.Ranks == nil {
		if c.Group.Ranks = pytorch.EvenRanks(string(a.GroupRanks), int64(c.Group.Size)); c.Group.Ranks != nil {
			r.cutRanks[c.Group.Name] = true
		}
	}
	c.SetSizes(a.In.Number(-1), a.Out.Number(-1))
	return c
}
