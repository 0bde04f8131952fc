// SPDX-License-Identifier: Apache-2.0

// Package job brings up a fabric for one run, tells its processes how to find it,
// and judges and removes it when they are gone.
package job

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Variables that lead a job's processes to its fabric.
const (
	DirEnv    = "DDLEMU_DIR"
	FabricEnv = "DDLEMU_FABRIC"
	JobEnv    = "DDLEMU_JOB"
)

// Job is a run on a fabric.
type Job struct {
	Fabric *fabric.Fabric
	dir    *state.Dir
	file   *state.File
	name   string
	id     string
	own    bool
	daemon int             // process id, 0 if there is none
	before state.JobStatus // all traffic on the kernel datapath when the job began
}

// Start brings up f under a name of its own that begins with prefix. On the kernel
// datapath the program that calls it must be ddlemu, which is its own daemon, and
// f's subnet is settled here.
func Start(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string) (*Job, error) {
	return start(ctx, dir, f, prefix, func(*link.Transport) {})
}

// StartFree is Start of a fabric on which a message costs its endpoints and their hosts
// nothing, although the ranks read in it, and NCCL is told, what f says.
func StartFree(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string) (*Job, error) {
	return start(ctx, dir, f, prefix, func(t *link.Transport) { t.Overhead, t.Gap, t.Host = 0, 0, link.Host{} })
}

// start brings f up with its transport changed by change.
func start(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string, change func(*link.Transport)) (*Job, error) {
	j := &Job{Fabric: f, dir: dir, id: randomText(), own: true}
	j.name = state.JobPrefix + prefix + "-" + j.id[:8]
	if f.Config.OnKernel() {
		if err := daemon.Prepare(f); err != nil {
			return nil, err
		}
	}
	spec, err := live.Spec(f, j.name)
	if err != nil {
		return nil, err
	}
	change(&spec.Transport)
	if j.file, err = dir.Create(spec); err != nil {
		return nil, err
	}
	if err := j.file.Own(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if f.Config.OnKernel() {
		if j.daemon, err = daemon.Start(ctx, dir, j.file); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// Daemon is the process id of the daemon that keeps the job's own fabric, 0 if it
// needs none.
func (j *Job) Daemon() int { return j.daemon }

// Share runs a job on a fabric that is up already, with counters and a verdict of
// its own.
func Share(dir *state.Dir, name string) (*Job, error) {
	file, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fabric %s is not up: bring it up with `ddlemu up`: %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	f, err := live.Fabric(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	j := &Job{Fabric: f, dir: dir, file: file, name: name, id: randomText()}
	if p := verdict.PacketsOf(file, f); p != nil {
		j.before = p.Traffic
	}
	return j, nil
}

func randomText() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Name is the fabric's name.
func (j *Job) Name() string { return j.name }

// Own says whether the fabric is this job's own and goes with it.
func (j *Job) Own() bool { return j.own }

// Env is what the job's processes must have in their environment to find it.
func (j *Job) Env() []string {
	return []string{DirEnv + "=" + j.dir.Path, FabricEnv + "=" + j.name, JobEnv + "=" + j.id}
}

// Verdict judges what the job has done: all the programs that it ran, one after
// another or at once. Processes that died since are noticed. Of a job on the kernel
// datapath that did not load the plugin it is what all packets on the fabric met.
func (j *Job) Verdict() verdict.Verdict {
	j.file.Reap()
	for _, e := range j.file.JobsOf(Key(j.id)) {
		e.Settle()
	}
	in := verdict.NewInput(j.file, j.Fabric, j.counters())
	if in.Packets != nil {
		in.Packets.Traffic.Since(&j.before)
	}
	v := j.judged(in)
	if j.file.Down() {
		v.Add(false, "fabric "+j.name+" was taken down while the job ran")
	}
	return v
}

// judged is the verdict on the job's ranks, or, where none loaded the plugin, on the
// traffic of its fabric.
func (j *Job) judged(in verdict.Input) verdict.Verdict {
	if in.Packets != nil && in.Job.Joined == 0 {
		v, ok := trafficVerdict(in)
		if !ok {
			v.Add(false, fmt.Sprintf("no rank loaded the plugin, and of other traffic the shaper %s does not see whether it was on time", j.file.Shaper()))
		}
		return v
	}
	v := verdict.Judge(in)
	if gone := in.Job.Number - len(j.file.JobsOf(Key(j.id))); gone > 0 {
		v.Add(false, fmt.Sprintf("the counters of %d programs of this run gave way to others: those are not judged", gone))
	}
	return v
}

// trafficVerdict judges all traffic of a fabric of the kernel datapath since this job
// began; ok says whether the shaper sees it.
func trafficVerdict(in verdict.Input) (v verdict.Verdict, ok bool) {
	if !in.Packets.Seen {
		return verdict.Verdict{Reasons: []string{}, Notes: []string{}, Links: []verdict.Link{}}, false
	}
	in.Job, in.Packets = in.Packets.Traffic, nil
	in.Job.Left = in.Job.Joined // the daemon stays, and is not waited for
	return verdict.Judge(in), true
}

// counters are those of all programs of the job together; Number is the latest's.
func (j *Job) counters() state.JobStatus {
	sum := state.JobStatus{Cells: make([]state.Cell, len(j.Fabric.Hops))}
	for _, e := range j.file.JobsOf(Key(j.id)) {
		s := e.Status()
		sum.Number = max(sum.Number, s.Number)
		sum.Add(&s)
	}
	return sum
}

// Traffic is what a node's NICs carried, in bytes of payload.
type Traffic struct{ Out, In uint64 }

// Traffic is the job's traffic between nodes, by node.
func (j *Job) Traffic() []Traffic {
	nodes := make([]Traffic, j.Fabric.Config.Nodes)
	cells := j.counters().Cells
	for i, h := range j.Fabric.Hops {
		if h.Kind != fabric.Link {
			continue
		}
		for _, k := range cells[i].Size {
			nodes[j.Fabric.NodeOfNIC(h.Src)].Out += k.Bytes
			nodes[j.Fabric.NodeOfNIC(h.Dst)].In += k.Bytes
		}
	}
	return nodes
}

// Beside is how many other jobs had messages under way while this one had.
func (j *Job) Beside() int {
	mine := j.counters()
	from, to := span(mine.Cells)
	others := map[uint64]bool{}
	for _, o := range j.file.Jobs() {
		s := o.Status()
		if s.Key == Key(j.id) || s.Key == state.TrafficKey {
			continue
		}
		if first, last := span(s.Cells); first < to && last > from {
			others[s.Key] = true
		}
	}
	return len(others)
}

// span is from when to when messages were under way, in ns; an empty one if there were none.
func span(cells []state.Cell) (from, to int64) {
	from = math.MaxInt64
	for i := range cells {
		if c := &cells[i]; c.FirstPosted != 0 {
			from, to = min(from, c.FirstPosted), max(to, c.LastVisible)
		}
	}
	return from, to
}

// Close takes the job's own fabric down and removes it; a shared one stays.
func (j *Job) Close() error {
	if !j.own {
		return j.file.Close()
	}
	j.file.TakeDown()
	var err error
	if j.daemon != 0 {
		err = daemon.CleanUp(j.dir, j.file)
	}
	return errors.Join(err, j.dir.Remove(j.name), j.file.Close())
}

// Key is the number under which the fabric's file keeps the job called id.
func Key(id string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%s\x00", JobEnv, id)
	return h.Sum64()
}
