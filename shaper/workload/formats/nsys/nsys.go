// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// howToExport says how sizes get into an export.
const howToExport = "`nsys export --type sqlite --include-blobs=true REPORT.nsys-rep`, or --type json where nsys does " +
	"not know --include-blobs"

// Read reads the recordings of a job: one file for all ranks, one for each, or the file of one rank, which then stands
// for all.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	var recordings []*recording
	for _, f := range files {
		r, err := readFile(f, o.Limit)
		if err != nil {
			return nil, err
		}
		recordings = append(recordings, r)
	}
	j := &job{options: o, members: members(recordings)}
	if err := j.sized(recordings); err != nil {
		return nil, err
	}
	if err := j.number(); err != nil {
		return nil, err
	}
	if err := j.resolve(); err != nil {
		return nil, err
	}
	return j.workload()
}

// readFile reads a file of one of the forms.
func readFile(f input.File, limit *input.Limit) (*recording, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	head, _ := in.Peek(len(sqliteMagic))
	in.Close()
	switch {
	case string(head) == sqliteMagic:
		return readSQLite(f, limit)
	case len(head) > 0 && head[0] == '{':
		return readJSON(f, limit)
	}
	return nil, refuseReport(f)
}

// sized refuses recordings that say of no call how many bytes it moves, with what they have.
func (j *job) sized(recordings []*recording) error {
	calls, kernels := map[string]int{}, map[string]int{}
	moving, broken, noBlobs := 0, 0, false
	for _, r := range recordings {
		broken, noBlobs = broken+r.broken, noBlobs || r.noBlobs
		for i := range r.ranges {
			if _, moves := functions[r.ranges[i].function]; moves {
				calls[strings.TrimPrefix(r.ranges[i].function, "nccl")]++
				if r.ranges[i].payload.has[fieldBytes] {
					moving++
				}
			}
		}
		for i := range r.kernels {
			kernels[kernelKind(r.kernels[i].name)]++
		}
	}
	file := recordings[0].file
	switch {
	case moving > 0:
		return nil
	case len(calls) == 0 && len(kernels) == 0:
		return fmt.Errorf("%s: no call and no kernel of NCCL: record with `nsys profile -t cuda,nvtx`", file)
	case len(calls) == 0:
		return fmt.Errorf(
			"%s: kernels of NCCL (%s) and none of its ranges, so no sizes: record with `nsys profile -t cuda,nvtx` "+
				"and without "+
				"NCCL_NVTX_DISABLE, and export with %s", file, list(kernels), howToExport)
	case broken > 0:
		return fmt.Errorf("%s: calls of NCCL (%s), and the sizes of none are understood (%s)", file, list(calls),
			units.Count(broken, "payload"))
	}
	return fmt.Errorf("%s: calls of NCCL (%s) without sizes: export them with %s (NCCL has them since 2.16)", file,
		list(calls), howToExport)
}

// list is names with their numbers, such as AllReduce 3.
func list(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// workload makes the workload.
func (j *job) workload() (*workload.Workload, error) {
	first := j.firsts()
	lists := make([][]workload.Op, len(j.members))
	made := 0
	for i := range j.members {
		var err error
		if lists[i], err = j.timeline(i, first[i], made); err != nil {
			return nil, fmt.Errorf("%s: %w", j.members[i].recording.file, err)
		}
		made += len(lists[i])
	}
	source := j.source()
	j.members = nil // recordings may be large
	return perrank.Workload(j.world, lists, j.comms.Comms, source), nil
}

// firsts are by how much each member began later than the first one of its file, by its first call of the host.
func (j *job) firsts() []int64 {
	earliest := map[*recording]int64{}
	for _, m := range j.members {
		if at, known := earliest[m.recording]; len(m.all) > 0 && (!known || m.all[0].called < at) {
			earliest[m.recording] = m.all[0].called
		}
	}
	out := make([]int64, len(j.members))
	for i, m := range j.members {
		if len(m.all) > 0 {
			out[i] = m.all[0].called - earliest[m.recording]
		}
	}
	return out
}

// operation is the operation of a unit, nil if nothing of it is left.
func (j *job) operation(at int, u *unit) (*workload.Op, error) {
	var ops []workload.Op
	for _, e := range u.calls {
		o, err := j.call(at, e)
		if err != nil {
			return nil, err
		}
		if o != nil {
			ops = append(ops, *o)
		}
	}
	switch len(ops) {
	case 0:
		return nil, nil
	case 1:
		return &ops[0], nil
	}
	return &workload.Op{Kind: workload.Group, Ops: ops}, nil
}

// call is the operation of a call, nil if it is left out.
func (j *job) call(at int, e *rangeEvent) (*workload.Op, error) {
	p := &e.payload
	f, moves := functions[e.function]
	comm := j.names[at][p.values[fieldComm]]
	switch {
	case !moves:
		j.left.oneSided++
		return nil, nil
	case !p.has[fieldBytes] || p.values[fieldBytes] > workload.MaxMessage:
		j.left.unsized++
		return nil, nil
	case comm == "":
		j.left.singles++
		return nil, nil
	}
	o := &workload.Op{Kind: f.kind, Func: f.coll, Comm: comm}
	o.Count, o.Type = j.options.Elements(int64(p.values[fieldBytes]), 1)
	if f.kind != workload.Coll {
		if len(j.members) == 1 && j.world > 1 {
			return nil, errors.New(
				"the ranks of a job with sends and receives do not do the same: give the recordings of all ranks")
		}
		if o.Peer = p.number(fieldPeer, -1); o.Peer < 0 {
			j.left.noPeer++
			return nil, nil
		}
		return o, nil
	}
	if f.coll.Rooted() {
		o.Root = max(p.number(fieldRoot, 0), 0)
	}
	if f.coll.Reduces() {
		known := false
		if o.RedOp, known = workload.RedOpOf(p.number(fieldOp, -1)); !known {
			j.left.operators++
		}
	}
	return o, nil
}
