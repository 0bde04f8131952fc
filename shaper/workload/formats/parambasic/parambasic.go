// SPDX-License-Identifier: Apache-2.0

// Package parambasic reads the basic traces of PARAM's replay benchmark (commsTraceReplay.py of facebookresearch/param,
// --trace-type basic): a JSON list of calls of PyTorch's process groups, one file per rank, named by the rank.
//
// Sizes are numbers of elements of the tensors that go in and come out. startTime_ns is when the host made the call.
package parambasic

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// entry is one element of the list. The replay writes it with more fields, of what it measured.
type entry struct {
	Comms    string            `json:"comms"`
	Compute  string            `json:"compute"`
	Markers  []json.RawMessage `json:"markers"`
	Req      json.RawMessage   `json:"req"` // a number, or a list of a number and whether it is a message
	Start    *int64            `json:"startTime_ns"`
	World    int               `json:"world_size"` // of the process group
	In       *int64            `json:"in_msg_size"`
	Out      *int64            `json:"out_msg_size"`
	DType    string            `json:"dtype"`
	InSplit  []int64           `json:"in_split"`
	OutSplit []int64           `json:"out_split"`
	Root     *int              `json:"root"` // a rank of the job, as src_rank and dst_rank are
	Group    json.RawMessage   `json:"pg_id"`
	Ranks    []int             `json:"global_ranks"`
	Src      *int              `json:"src_rank"`
	Dst      *int              `json:"dst_rank"`
	Batch    bool              `json:"use_batch"`
}

// job is what all files say together.
type job struct {
	options input.Options
	files   []input.File
	ranks   []int // of the files
	world   int
	said    int                         // ranks of the group of all ranks, 0 if no entry has it
	groups  []map[string]workload.Ranks // of each file, by pg_id
	comms   perrank.Registry
	listed  int // ranks of groups
	made    int // operations of all files
	all     workload.Ranks

	foreign                                             map[string]int
	computes, empty, unsized, singles, unequal, strange int
	noPeers, noRoots, waits, untimed, timed             int
	refused                                             string // the first message of a type that is not known
	refusedCalls                                        int
}

// Read reads the files of the ranks of a job, or that of one rank, which then stands for all.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	j := &job{options: o, files: files, world: o.Ranks, foreign: map[string]int{}}
	for i, f := range files {
		j.ranks = append(j.ranks, rankOf(f.Name, i))
		j.groups = append(j.groups, map[string]workload.Ranks{})
		if err := j.scan(f, j.groups[i]); err != nil {
			return nil, err
		}
	}
	if err := o.CheckRanks(files[0].Name, j.said); err != nil {
		return nil, err
	}
	if err := j.countRanks(); err != nil {
		return nil, err
	}
	lists := make([][]workload.Op, max(len(files), 1))
	for i, f := range files {
		ops, err := j.operations(f, j.ranks[i], j.groups[i])
		if err != nil {
			return nil, err
		}
		at := 0
		if len(files) > 1 {
			at = j.ranks[i]
		}
		lists[at] = ops
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: j.world, Comms: j.comms.Comms}}
	if w.Ops = lists[0]; len(files) > 1 {
		w.Ops = perrank.Join(lists, w.Head.Comms)
	}
	if !slices.ContainsFunc(w.Ops,
		func(o workload.Op) bool { return o.Kind != workload.Calc && o.Kind != workload.Step }) {
		return nil, fmt.Errorf("%s: no call that is known", files[0].Name)
	}
	w.Head.Source = j.source()
	return w, nil
}

var numbers = regexp.MustCompile(`\d+`)

// rankOf is the last number in the name of the file, which PARAM names 3.json; the place among the files if there is
// none.
func rankOf(name string, place int) int {
	all := numbers.FindAllString(strings.TrimSuffix(filepath.Base(name), ".gz"), -1)
	if len(all) == 0 {
		return place
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil || n >= workload.MaxRanks {
		return place
	}
	return n
}

// each reads the entries of a file.
func (j *job) each(f input.File, do func(e *entry) error) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	decoder := in.JSON()
	return decoder.Array(func() error {
		var e entry
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		return do(&e)
	})
}

// scan finds the process groups and the number of ranks.
func (j *job) scan(f input.File, groups map[string]workload.Ranks) error {
	return j.each(f, func(e *entry) error {
		if e.World < 0 || e.World > workload.MaxRanks {
			return fmt.Errorf("world_size %d: at most %d ranks are possible", e.World, workload.MaxRanks)
		}
		// PyTorch's first group is that of all ranks
		if id := strings.Trim(string(e.Group), `"`); id == "" || id == "0" {
			j.said = max(j.said, e.World)
		}
		j.world = max(j.world, e.World, len(e.InSplit))
		if len(e.Ranks) == 0 {
			return nil
		}
		ranks := make(workload.Ranks, len(e.Ranks))
		for i, r := range e.Ranks {
			if r < 0 || r >= workload.MaxRanks || slices.Contains(ranks[:i], r) && len(ranks) < 1<<12 {
				return fmt.Errorf("global_ranks: %d is no rank, or is there twice", r)
			}
			ranks[i] = r
			j.world = max(j.world, r+1)
		}
		id := e.group()
		if known := groups[id]; known != nil && !slices.Equal(known, ranks) {
			return fmt.Errorf("process group %s has the ranks %s and %s", id, known, ranks)
		}
		if groups[id] == nil {
			j.listed += len(ranks)
		}
		groups[id] = ranks
		return j.options.Limit.Check(j.listed / 16) // 8 bytes each, and for a group of few ranks its name
	})
}

func (j *job) countRanks() error {
	first := j.files[0].Name
	switch {
	case len(j.files) == 1 && j.world == 0:
		return fmt.Errorf("%s does not say how many ranks the job had (world_size): add --ranks N", first)
	case len(j.files) == 1 && (j.options.OneForAll || j.world == 1):
		return nil
	case len(j.files) > 1:
		j.world = max(j.world, len(j.files))
		seen := map[int]bool{}
		for i, r := range j.ranks {
			if seen[r] {
				return fmt.Errorf(
					"%s: the name says rank %d, and so does another one: name the files by their ranks, such as 0.json",
					j.files[i].Name, r)
			}
			seen[r] = true
			if r >= j.world {
				return fmt.Errorf("%s: the name says rank %d, and the job has %d ranks", j.files[i].Name, r, j.world)
			}
		}
	}
	if len(j.files) != j.world {
		return fmt.Errorf("%s: the job had %s, given: %s: give those of all ranks, or that of one alone", first,
			units.Count(j.world, "rank"),
			units.Count(len(j.files), "file"))
	}
	return nil
}

// group is the process group of an entry, with its name.
func (b *builder) group(e *entry) (pytorch.Group, error) {
	id := e.group()
	g := pytorch.Group{Name: workload.World, Ranks: e.ranks(), Size: e.World}
	if id != "" {
		g.Name = "pg" + strings.Trim(id, `"`)
	}
	if g.Ranks == nil {
		g.Ranks = b.groups[id]
	}
	if g.Ranks == nil && (g.Size == 0 || g.Size == b.world) {
		if b.all == nil {
			b.all = perrank.All(b.world)
		}
		g.Ranks = b.all
	}
	if g.Ranks == nil && g.Size > 1 {
		return g, fmt.Errorf(
			"process group %s of %d ranks: the trace does not say which: it needs an entry \"init\" with "+
				"global_ranks", id, g.Size)
	}
	g.Size = max(len(g.Ranks), 1)
	return g, nil
}

// group is the id of the process group, "" if the entry has none.
func (e *entry) group() string {
	if id := string(e.Group); id != "null" {
		return id
	}
	return ""
}

func (e *entry) ranks() workload.Ranks {
	if len(e.Ranks) == 0 {
		return nil
	}
	return workload.Ranks(e.Ranks)
}
