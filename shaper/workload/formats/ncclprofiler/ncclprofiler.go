// SPDX-License-Identifier: Apache-2.0

// Package ncclprofiler reads the traces of the example profiler that comes with NCCL since 2.23 (ext-profiler/example,
// from 2.29 on plugins/profiler/example): JSON events of Chrome's trace format, one file per rank of a communicator,
// or per process before 2.27.
//
// COLL and P2P are the tasks that NCCL makes of calls. There NCCL counts an AllGather or Broadcast in bytes. Since
// 2.28, COLL_API and P2P_API are the calls themselves, with the type and the root; a task is inside of its call.
package ncclprofiler

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/members"
)

// reader collects the calls of all files.
type reader struct {
	job      members.Job
	names    input.Names
	strange  map[string]int // categories of events that are not known
	unknown  map[string]int // functions
	untyped  int
	peerless int
	unplaced int // calls of which the communicator is not known
	rootless int
	bytes    bool // there are tasks without their calls
	cut      int
	untimed  bool
}

// Read reads the files of the ranks of a job, in any order.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	r := &reader{job: members.Job{Limit: o.Limit}, strange: map[string]int{}, unknown: map[string]int{}}
	for _, f := range files {
		if err := r.read(f); err != nil {
			return nil, err
		}
	}
	if r.job.Calls() == 0 {
		return nil, fmt.Errorf("%s: no call: set NCCL_PROFILE_EVENT_MASK, such as to 4095, to record calls",
			files[0].Name)
	}
	r.job.Timed = !r.untimed
	r.describe()
	w, err := r.job.Build(files[0].Name, o)
	if err != nil {
		return nil, err
	}
	w.Head.Source.Kind, w.Head.Source.File = "ncclprofiler", input.Title(files[0].Name, len(files))
	return w, nil
}

// read reads a file: an array of events, or an object with one as Chrome has it too.
func (r *reader) read(f input.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	t := &trace{reader: r}
	t.process, t.place = fileOf(f.Name)
	in.Reader = bufio.NewReader(&wordQuoter{in: in.Reader})
	j := in.JSON()
	event := func() error {
		var e event
		if err := j.Decode(&e); err != nil {
			return err
		}
		return t.event(&e)
	}
	first, _ := in.Peek(1)
	if len(first) > 0 && first[0] == '{' {
		err = j.Object(func(key string) error {
			if key == "traceEvents" {
				return j.Array(event)
			}
			return j.Skip()
		})
	} else {
		err = j.Array(event)
	}
	if errors.Is(err, input.ErrCut) {
		r.cut++
		err = nil
	}
	if err != nil {
		return err
	}
	return t.finish()
}

// describe says what the traces do not, and counts what was not understood.
func (r *reader) describe() {
	j := &r.job
	j.Missing = append(j.Missing, "reduction operators: sum is taken",
		"calls for which the profiler had no place: it keeps 8 to 16 of a kind if "+
			"NCCL_PROFILE_GROUP_API_POOL_SIZE, NCCL_PROFILE_COLL_POOL_SIZE and the like do not say otherwise")
	missing, note := input.Sentences(&j.Missing), input.Counts(&j.Notes)
	missing(r.bytes, "the type of an AllGather or Broadcast: before 2.28 the profiler has their bytes")
	missing(r.rootless > 0, "the root of %s: rank 0 of the communicator is taken", units.Count(r.rootless, "record"))
	note(r.cut, "file", "ends in the middle of an event, which was left out")
	note(r.untyped, "call", "left out, the type or the number of elements is not known")
	note(r.peerless, "message", "left out, the peer is not recorded")
	note(r.unplaced, "call", "left out, the communicator is not recorded")
	for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
		note(r.unknown[name], "call", fmt.Sprintf("of %q, no collective, send or receive: left out", name))
	}
	for _, cat := range slices.Sorted(maps.Keys(r.strange)) {
		note(r.strange[cat], "event", fmt.Sprintf("of category %q: not understood", cat))
	}
}
