// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Read reads the fabric of a file.
func Read(file *state.File) (*Reading, error) {
	fab, err := fabricfile.Read(file)
	if err != nil {
		return nil, err
	}
	return NewReader(file, fab).Read(), nil
}

// Reader reads a fabric. It acquires no lock of the file, so ranks never wait for it. It is not safe for concurrent
// use.
type Reader struct {
	file   *state.File
	fab    *fabric.Fabric
	places []*Place
	over   []Job // that had ended when the fabric was read last, and do not change any more
}

// NewReader makes a reader of a file, which stays open as long as the reader is used. fab is what [fabricfile.Read]
// gives.
func NewReader(file *state.File, fab *fabric.Fabric) *Reader {
	r := &Reader{file: file, fab: fab}
	for i, h := range fab.Hops {
		p := &Place{Kind: h.Kind, Name: fab.HopName(i)}
		switch h.Kind {
		case link.TxPort, link.RxPort:
			p.NIC, p.Direction = fab.NICName(h.Src), "tx"
			if h.Kind == link.RxPort {
				p.Direction = "rx"
			}
		default:
			p.From, p.To = fab.EndNames(h.Kind, h.Src, h.Dst)
		}
		r.places = append(r.places, p)
	}
	return r
}

// FindPaths sets the paths of all places, for callers that need them. It takes long on a large fabric.
func (r *Reader) FindPaths() {
	for i, p := range r.places {
		p.Path = pathOf(r.fab, i)
	}
}

// pathOf are, for a link, the hops of its path, or of its paths if each flow has its own; for others the hop alone.
func pathOf(fab *fabric.Fabric, hop int) (hops []int) {
	h := &fab.Hops[hop]
	if h.Kind != link.Link {
		return []int{hop}
	}
	for _, path := range fab.Paths(h.Src, h.Dst) {
		hops = append(hops, fabric.Hops(path)...)
	}
	return hops
}

// readAgain is how often the hops are read again if a virtual clock jumps meanwhile.
const readAgain = 5

// Read reads the fabric with all jobs.
func (r *Reader) Read() *Reading { return r.read(r.file.Jobs()) }

// ReadJob reads the fabric with the job of all traffic, if there is one, and then job j. If another job has the slot of
// j by now, its counters are the other job's.
func (r *Reader) ReadJob(j state.Job) *Reading {
	jobs := slices.DeleteFunc(r.file.Jobs(), func(j state.Job) bool { return !j.Traffic() })
	return r.read(append(jobs, j))
}

// ReadCounters reads the time, the counters of all hops and the jobs, and leaves out what takes longer: the messages of
// links, the actors of a virtual clock, and the fabric's mistakes.
func (r *Reader) ReadCounters() *Reading {
	f := r.readHops()
	r.addJobs(f, r.file.Jobs())
	return f
}

func (r *Reader) read(jobs []state.Job) *Reading {
	f := r.readHops()
	described := *r.fab
	described.Hops = slices.Clone(r.fab.Hops)
	for i := range f.InFile {
		described.Hops[i].Spec = f.InFile[i].Spec
	}
	f.Fabric, f.VirtualClock = &described, r.file.ClockStatus()
	r.addJobs(f, jobs)
	f.addMessages()
	f.Problem = r.problem(f)
	f.Events = Events(r.file)
	return f
}

// readHops reads what belongs to no job.
func (r *Reader) readHops() *Reading {
	fixed, c := r.file.Fixed(), &r.fab.Config
	f := &Reading{
		Name: r.file.Name(), Profile: r.file.Profile(), Transport: c.Transport.Kind,
		Nodes: fixed.Nodes, GPUsPerNode: fixed.GPUsPerNode, NICsPerNode: fixed.NICsPerNode, TimeScale: fixed.TimeScale,
		GPU: c.GPUName(), Seed: fixed.Seed, Created: fixed.Created,
		Datapath: c.DatapathName(), Shaper: r.file.Shaper(), Subnet: c.Subnet, Clock: c.ClockName(),
		Participants: []Participant{},
	}
	for range readAgain {
		before := r.file.Now()
		f.InFile = r.file.Hops()
		f.Hops = r.hops(f.InFile, before)
		f.Up, f.Time = time.Duration(state.Now()-fixed.Created), fabricfile.Time(r.file)
		if !r.file.Virtual() || r.file.Now() == before {
			break
		}
	}
	return f
}

// Events are the lines of the log of a fabric, the newest last.
func Events(file *state.File) []Event {
	all := []Event{}
	for _, e := range file.Events() {
		all = append(all, Event{At: int64(e.Time), Text: e.Text})
	}
	return all
}

// hops are the hops at the time now of the fabric's clock, without their messages.
func (r *Reader) hops(all []state.HopStatus, now int64) []HopReading {
	scale := r.file.Fixed().TimeScale
	out := make([]HopReading, len(all))
	for i := range all {
		h := &all[i]
		reserved := max(atomic.LoadInt64(&r.file.Entry(i).NextFree)-now, 0)
		out[i] = HopReading{
			Place: r.places[i], Counters: h.Counters.Stated(scale), Spec: h.Spec, Changed: h.Changed,
			Classes:  h.Classes,
			Reserved: time.Duration(reserved / int64(scale)),
		}
	}
	return out
}

// problem is why no job can use the fabric.
func (r *Reader) problem(f *Reading) string {
	switch {
	case f.OnKernel() && !r.file.Served() && !r.file.InUse():
		return "its daemon is gone: remove it with `ddlemu gc`"
	case f.VirtualClock != nil && f.VirtualClock.Deadlocked:
		return "deadlocked: every rank waited, and nothing was left to happen"
	}
	return ""
}

// addJobs adds the jobs and ranks. Jobs that had ended before are not read again.
func (r *Reader) addJobs(f *Reading, jobs []state.Job) {
	dead, alive := map[int]state.Dead{}, map[int]bool{} // by job
	for _, p := range r.file.Participants() {
		if p.Rank != state.DaemonRank {
			f.Participants = append(f.Participants, Participant{
				Slot: p.Slot, Job: p.Job, Rank: p.Rank, Node: p.Node, World: p.World, PID: p.PID, Alive: p.Alive,
				MemoryUsed: p.Rings, MemoryBudget: p.Budget, GPU: p.GPU,
			})
		}
		if p.Alive {
			alive[p.Job] = true
		} else {
			d := dead[p.Job]
			d.Add(&p)
			dead[p.Job] = d
		}
	}
	var over []Job
	for _, j := range jobs {
		known := slices.IndexFunc(r.over, func(o Job) bool { return o.ID() == JobID{j.Index(), j.Started()} })
		if known < 0 {
			f.Jobs = append(f.Jobs, read(j, dead[j.Index()], alive[j.Index()]))
		} else {
			f.Jobs = append(f.Jobs, r.over[known])
		}
		if last := f.Jobs[len(f.Jobs)-1]; !last.Running {
			over = append(over, last)
		}
	}
	r.over = over
}

// read reads a job. Some of its processes are dead, and no process has noted that yet: to note it needs a lock.
func read(j state.Job, dead state.Dead, alive bool) Job {
	c := j.Status()
	c.AddDead(dead)
	c.Running = c.Running && (alive || dead.All == 0)
	out := Job{
		Number: j.Index(), Running: c.Running, Traffic: j.Traffic(), Verify: j.Verify(), Joined: c.Joined, Left: c.Left,
		Died: c.Died, Stopped: c.Stopped,
		Counted: c, Place: j,
	}
	for hop := range c.LinkStats {
		sum := c.LinkStats[hop].Total()
		out.Messages, out.Bytes = out.Messages+sum.Messages, out.Bytes+sum.Bytes
	}
	return out
}

// Arrived are the messages of the job that have arrived over a hop. What the job of all traffic counts is packets.
func (j *Job) Arrived(hop int) (messages uint64) {
	if j.Traffic {
		return 0
	}
	sum := j.Counted.LinkStats[hop].Total()
	return sum.Messages
}

// addMessages adds the messages of each link, also to the trunks on its path. Where each flow has a path of its own,
// the trunks have counted them.
func (f *Reading) addMessages() {
	for i := range f.Hops {
		arrived, carried := uint64(0), uint64(0)
		for k := range f.Jobs {
			arrived += f.Jobs[k].Arrived(i)
			carried += f.Jobs[k].Counted.LinkStats[i].CarriedMessages
		}
		f.Hops[i].Messages += arrived + carried
		if f.Hops[i].Kind != link.Link || arrived == 0 || f.Fabric.PerFlow() {
			continue
		}
		path := f.Hops[i].Path
		if path == nil { // FindPaths was not called
			path = pathOf(f.Fabric, i)
		}
		for _, hop := range path {
			if f.Hops[hop].Kind == link.Trunk {
				f.Hops[hop].Messages += arrived
			}
		}
	}
}
