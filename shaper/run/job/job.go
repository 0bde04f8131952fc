// SPDX-License-Identifier: Apache-2.0

// Package job runs programs on a fabric: it brings a fabric up, tells the programs how to find it, judges what they did
// and removes the fabric. It also removes what earlier runs could not remove themselves.
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
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// Variables by which a job's processes find its fabric.
const (
	DirEnv    = "DDLEMU_DIR"
	FabricEnv = "DDLEMU_FABRIC"
	JobEnv    = "DDLEMU_JOB"
)

// ExitEnv tells the plugin which ranks are expected to die, or to end with a status that is not 0.
const ExitEnv = "DDLEMU_EXPECT_EXIT"

// TogetherEnv is 1 if the death of a rank is to fail all ranks of its job, see docs/failures.md.
const TogetherEnv = "DDLEMU_FAIL_TOGETHER"

// Job is a run on a fabric. It is not safe for concurrent use.
type Job struct {
	Fabric  *fabric.Fabric
	dir     *state.Dir
	file    *state.File
	name    string
	id      string
	private bool
	daemon  int             // process id of the daemon, 0 if there is none
	guard   int             // process id of the guard, 0 if there is none
	changes int64           // of links before the job began
	since   time.Duration   // of the fabric, when the job began
	before  state.JobStatus // counters of all traffic on the kernel datapath when the job began
	load    *host.LoadWatch // of this host since the job began
	exits   []int           // ranks that are expected to die, or to end with a status that is not 0
	stuck   atomic.Bool     // EndIfStuck has ended the programs

	faults     *faults      // of a fabric with a real clock; nil if it has none
	faultsMade atomic.Int64 // changes of links that faults have made
}

// Start brings up f as a fabric for this job alone, whose name begins with prefix. On the kernel datapath, the calling
// program must be ddlemu, because it is started again as the daemon, and f gets its subnet here.
func Start(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string) (*Job, error) {
	return start(ctx, dir, f, prefix, func(*link.Transport) {})
}

// StartFree is Start of a fabric on which endpoints and hosts add no time to a message. What ranks and NCCL read about
// the fabric is still f.
func StartFree(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string) (*Job, error) {
	return start(ctx, dir, f, prefix, func(t *link.Transport) { t.Overhead, t.Gap, t.Host = 0, 0, link.Host{} })
}

// start brings up f after change has changed its transport.
func start(ctx context.Context, dir *state.Dir, f *fabric.Fabric, prefix string, change func(*link.Transport)) (*Job,
	error) {
	j := &Job{Fabric: f, dir: dir, id: randomText(), private: true}
	j.name = state.JobPrefix + prefix + "-" + j.id[:8]
	if f.Config.OnKernel() {
		if err := daemon.Prepare(f); err != nil {
			return nil, err
		}
	}
	spec, err := fabricfile.Describe(f, j.name)
	if err != nil {
		return nil, err
	}
	change(&spec.Transport)
	if j.file, err = dir.Create(spec); err != nil {
		return nil, err
	}
	j.load = host.WatchLoad()
	if err := j.file.MarkInUse(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if f.Config.OnKernel() {
		if j.daemon, err = daemon.Start(ctx, dir, j.file); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	if j.faults, err = j.startFaults(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Share runs a job on a fabric that is up already, with separate counters and a separate verdict.
func Share(dir *state.Dir, name string) (*Job, error) {
	file, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fabric %s is not up: bring it up with `ddlemu up --profile eth10 --name %[1]s`: %w",
			name, err)
	}
	if err != nil {
		return nil, err
	}
	f, err := fabricfile.Read(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	j := &Job{Fabric: f, dir: dir, file: file, name: name, id: randomText(),
		since: time.Duration(state.Now() - file.Fixed().Created), load: host.WatchLoad()}
	j.changes = j.unplanned()
	if p := verdict.PacketsOf(status.NewReader(file, f).Read()); p != nil {
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

// Time is the time of the emulated network since the fabric was brought up, by the fabric's clock.
func (j *Job) Time() time.Duration { return fabricfile.Time(j.file) }

// Key is the key of the job's counters in the fabric's file.
func (j *Job) Key() uint64 { return Key(j.id) }

// Private says whether the fabric belongs to this job alone and is removed with it.
func (j *Job) Private() bool { return j.private }

// Stop notes that the programs of the job are ended before they are done. Ranks that end from now on have not died.
func (j *Job) Stop() { j.file.StopJobs(j.Key()) }

// StopWith calls Stop when ctx ends, until done is called.
func (j *Job) StopWith(ctx context.Context) (done func()) {
	called := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(called)
		j.Stop()
	})
	return func() {
		if !end() {
			<-called
		}
	}
}

// unplanned counts the changes of links that no fault of the fabric's configuration has made.
// It is lower while a fault is being made.
func (j *Job) unplanned() int64 {
	return int64(j.file.Changes()) - int64(len(j.file.Planned())) - j.faultsMade.Load()
}

// LinkChanges says that links were changed, by `ddlemu shape` or else, since the job began, and how; "" if they were
// not. Faults of the fabric's configuration are not among them.
func (j *Job) LinkChanges() string {
	if j.unplanned() <= j.changes {
		return ""
	}
	var changes []string
	for _, e := range j.file.Events() {
		if e.Time >= j.since && strings.HasPrefix(e.Text, state.ShapeEvent) {
			changes = append(changes, e.Text)
		}
	}
	const shown = 3
	if more := len(changes) - shown; more > 0 {
		changes = append(changes[:shown], fmt.Sprintf("and %d more", more))
	}
	text := "links were changed while the job ran"
	if len(changes) > 0 {
		text += " (" + strings.Join(changes, "; ") + ")"
	}
	return text
}

// JudgeLinkChanges judges figures that are compared with figures of the links at the job's begin. Changes of a fabric
// of this job alone are a reason for INVALID: nobody was to change it. Changes of a shared fabric are returned, "" if
// there are none.
func (j *Job) JudgeLinkChanges(v *verdict.Verdict) (shared string) {
	changes := j.LinkChanges()
	if changes == "" {
		return ""
	}
	changes += ": the expected times are of the links at its start"
	if !j.private {
		return changes
	}
	v.Add(verdict.Finding{Cause: verdict.CauseFabric, Text: changes})
	return ""
}

// Env returns the variables by which the job's processes find the fabric. The processes fail together, unless the
// environment says something else.
func (j *Job) Env() []string {
	env := []string{DirEnv + "=" + j.dir.Path, FabricEnv + "=" + j.name, JobEnv + "=" + j.id}
	if len(j.exits) > 0 {
		text := []string{}
		for _, rank := range j.exits {
			text = append(text, strconv.Itoa(rank))
		}
		env = append(env, ExitEnv+"="+strings.Join(text, ","))
	}
	if _, given := os.LookupEnv(TogetherEnv); given {
		return env
	}
	return append(env, TogetherEnv+"=1")
}

// ExpectExits notes which ranks are expected to die, or to end with a status that is not 0: at most [state.MaxExits].
// Call it before Env.
func (j *Job) ExpectExits(ranks []int) { j.exits = ranks }

// RemoveLimits removes all limits of all hops of the fabric. It includes trunks, which no pattern for all links names.
func (j *Job) RemoveLimits() error {
	specs := map[int]link.Spec{}
	for _, h := range j.file.Hops() {
		s := h.Spec
		s.Bandwidth, s.Latency, s.Jitter, s.Loss, s.Down = uint64(units.Unlimited), 0, link.Jitter{}, link.Loss{}, false
		specs[h.Index] = s
	}
	if err := j.file.Change(specs); err != nil {
		return err
	}
	j.changes += int64(len(specs)) // these are the job's own
	return nil
}

// Verdict judges all programs that the job ran. It first notices processes that died. A job on the kernel datapath that
// did not load the plugin is judged by all packets on the fabric.
func (j *Job) Verdict() verdict.Verdict {
	j.file.Reap()
	for _, e := range j.file.JobsOf(Key(j.id)) {
		e.WaitCounted()
	}
	in := verdict.NewInput(status.NewReader(j.file, j.Fabric).Read(), j.counters())
	in.Load = j.load.Load()
	if in.Packets != nil {
		in.Packets.Traffic.Subtract(&j.before)
	}
	exits := in.Job.Exits
	v := j.judge(in)
	v.AddExits(j.exits, exits)
	if v.TakenDown = j.file.Down(); v.TakenDown {
		v.Add(verdict.Finding{Cause: verdict.CauseFabric, Text: "fabric " + j.name +
			" was taken down while the job ran"})
	}
	j.faults.judge(&v)
	v.Notes = append(v.Notes, j.faultNotes()...)
	return v
}

// judge is the verdict on the job's ranks, or on the fabric's traffic if no rank loaded the plugin.
func (j *Job) judge(in verdict.Input) verdict.Verdict {
	if in.Packets != nil && in.Job.Joined == 0 {
		v, ok := trafficVerdict(in)
		v.AllBytes = true
		if !ok {
			v.Add(verdict.Finding{Cause: verdict.CauseJob,
				Text: fmt.Sprintf(
					"no rank loaded the plugin, and the shaper %s does not record whether other traffic was on time",
					j.file.Shaper())})
		}
		return v
	}
	v := verdict.Judge(in)
	if gone := in.Job.Number - len(j.file.JobsOf(Key(j.id))); gone > 0 {
		v.Add(verdict.Finding{Cause: verdict.CauseFabric,
			Text: fmt.Sprintf(
				"the counters of %d programs of this run were reused for others: these programs are not judged", gone)})
	}
	return v
}

// trafficVerdict judges all traffic of a fabric of the kernel datapath since this job began. ok says whether the shaper
// records it.
func trafficVerdict(in verdict.Input) (v verdict.Verdict, ok bool) {
	if !in.Packets.Seen {
		return verdict.New(in.Load), false
	}
	in.Job, in.Packets = in.Packets.Traffic, nil
	in.Job.Left = in.Job.Joined // the daemon goes on, so it counts as left
	return verdict.Judge(in), true
}

// counters is the sum of the counters of all programs of the job; Number is the number of the last program.
func (j *Job) counters() state.JobStatus {
	sum := state.JobStatus{LinkStats: make([]state.LinkStats, len(j.Fabric.Hops)),
		Pauses: make([]state.Pauses, len(j.Fabric.Hops))}
	for _, e := range j.file.JobsOf(Key(j.id)) {
		s := e.Status()
		sum.Number = max(sum.Number, s.Number)
		sum.Add(&s)
	}
	return sum
}

// HopCounters are the counters of the fabric's hops, for all jobs on it.
func (j *Job) HopCounters() (counters []link.Counters) {
	for _, h := range j.file.Hops() {
		counters = append(counters, h.Counters)
	}
	return counters
}

// Traffic is the payload in bytes that a node sent and received.
type Traffic struct{ Out, In uint64 }

// Traffic is the job's traffic between nodes, by node.
func (j *Job) Traffic() []Traffic {
	nodes := make([]Traffic, j.Fabric.Config.Nodes)
	stats := j.counters().LinkStats
	for i, h := range j.Fabric.Hops {
		if h.Kind != link.Link {
			continue
		}
		sum := stats[i].Total()
		nodes[j.Fabric.NodeOfNIC(h.Src)].Out += sum.Bytes
		nodes[j.Fabric.NodeOfNIC(h.Dst)].In += sum.Bytes
	}
	return nodes
}

// Arrived is how many bytes of the job's messages have arrived until now.
func (j *Job) Arrived() (bytes uint64) {
	for _, e := range j.file.JobsOf(Key(j.id)) {
		stats := e.LinkStats()
		for hop := range stats {
			sum := stats[hop].Total()
			bytes += sum.Bytes
		}
	}
	return bytes
}

// Concurrent is the number of other jobs that had messages in flight at the same time as this one.
func (j *Job) Concurrent() int {
	mine := j.counters()
	from, to := span(mine.LinkStats)
	others := map[uint64]bool{}
	for _, o := range j.file.Jobs() {
		s := o.Status()
		if s.Key == Key(j.id) || s.Key == state.TrafficKey {
			continue
		}
		if first, last := span(s.LinkStats); first < to && last > from {
			others[s.Key] = true
		}
	}
	return len(others)
}

// span is the time from the first post to the last arrival, in ns; from > to if there were no messages.
func span(stats []state.LinkStats) (from, to int64) {
	from = math.MaxInt64
	for i := range stats {
		if c := &stats[i]; c.FirstPosted != 0 {
			from, to = min(from, c.FirstPosted), max(to, c.LastVisible)
		}
	}
	return from, to
}

// Close takes the fabric down and removes it if it belongs to this job alone.
func (j *Job) Close() error {
	j.load.Stop()
	j.faults.stop()
	if !j.private {
		return j.file.Close()
	}
	j.file.TakeDown()
	var err error
	if j.daemon != 0 {
		err = daemon.CleanUp(j.dir, j.file)
	}
	return errors.Join(err, j.dir.Remove(j.name), j.file.Close())
}

// Key is the number of the job called id in the fabric's file.
func Key(id string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%s\x00", JobEnv, id)
	return h.Sum64()
}
