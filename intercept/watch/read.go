// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/live"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// ErrGone is the error for a fabric that was taken down, or whose file was removed.
var ErrGone = errors.New("was taken down")

// Reader looks at a fabric. It is not safe for concurrent use.
type Reader struct {
	Fabric Fabric
	file   *state.File
	fab    *fabric.Fabric
	over   map[jobKey]JobLook // jobs that had ended at the last look, which do not change any more
}

type jobKey struct {
	number  int
	started int64
}

var kinds = map[uint32]Kind{state.TxPort: Port, state.RxPort: Port, state.Link: Link, state.Trunk: Trunk}

// NewReader makes a reader of a fabric, which stays open as long as the reader is used.
func NewReader(file *state.File) (*Reader, error) {
	fab, err := live.Fabric(file)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, fab: fab, over: map[jobKey]JobLook{}, Fabric: Fabric{
		Name: file.Name(), Clock: fab.Config.ClockName(), TimeScale: file.Fixed().TimeScale, Kernel: fab.Config.OnKernel(),
	}}
	for i, h := range file.Hops() {
		p := Place{Kind: kinds[h.Kind], Name: fab.HopName(i), Path: []int{i}}
		switch h.Kind {
		case state.TxPort:
			p.From, p.To = fab.NICName(h.Src), "tx"
		case state.RxPort:
			p.From, p.To = fab.NICName(h.Src), "rx"
		default:
			p.From, p.To = fab.EndNames(fab.Hops[i].Kind, h.Src, h.Dst)
		}
		if h.Kind == state.Link {
			p.Path = nil
			for _, path := range fab.Paths(h.Src, h.Dst) {
				p.Path = append(p.Path, fabric.Hops(path)...)
			}
		}
		r.Fabric.Hops = append(r.Fabric.Hops, p)
	}
	return r, nil
}

// readAgain is how often the counters are read again if a virtual clock jumps meanwhile.
const readAgain = 5

// Look reads the fabric. The error wraps ErrGone if the fabric is not up any more.
func (r *Reader) Look() (*Look, error) {
	if r.file.Down() || r.file.Removed() {
		return nil, fmt.Errorf("fabric %s %w", r.Fabric.Name, ErrGone)
	}
	l := &Look{}
	for range readAgain {
		before := r.file.Now()
		l.Hops = r.hops(before)
		l.Up, l.Clock = time.Duration(state.Now()-r.file.Fixed().Created), live.Time(r.file)
		if !r.file.Virtual() || r.file.Now() == before {
			break
		}
	}
	l.Jobs = r.jobs()
	l.Problem = r.problem()
	return l, nil
}

// hops reads the hops, at the time now of the fabric's clock.
func (r *Reader) hops(now int64) []Counted {
	scale := r.Fabric.TimeScale
	all := r.file.Hops()
	out := make([]Counted, len(all))
	for i := range all {
		h := &all[i]
		reserved := max(atomic.LoadInt64(&r.file.Entry(i).NextFree)-now, 0)
		out[i] = Counted{
			Bandwidth: h.Spec.Bandwidth, Down: h.Spec.Down, Counters: h.Counters.Stated(scale), Reserved: time.Duration(reserved / int64(scale)),
		}
	}
	return out
}

// problem is why no job can use the fabric.
func (r *Reader) problem() string {
	if r.Fabric.Kernel && !r.file.Served() && !r.file.Claimed() {
		return "its daemon is gone: remove it with `ddlemu gc`"
	}
	if c := r.file.ClockStatus(); c != nil && c.Deadlocked {
		return "deadlocked: every rank waited, and nothing was left to happen"
	}
	return ""
}

// jobs reads the jobs. Those that had ended before are not read again.
func (r *Reader) jobs() []JobLook {
	var out []JobLook
	over := map[jobKey]JobLook{}
	dead := map[int]state.Dead{} // by job
	alive := map[int]bool{}
	for _, p := range r.file.Participants() {
		if p.Alive {
			alive[p.Job] = true
		} else {
			d := dead[p.Job]
			d.Add(&p)
			dead[p.Job] = d
		}
	}
	for _, j := range r.file.Jobs() {
		key := jobKey{j.Index(), j.Started()}
		l, known := r.over[key]
		if !known {
			l = r.job(j, dead[j.Index()], alive[j.Index()])
		}
		if !l.Running {
			over[key] = l
		}
		out = append(out, l)
	}
	r.over = over
	return out
}

// job reads a job. Some of its processes are dead, and no process has noticed that yet: to note it needs a lock.
func (r *Reader) job(j state.Job, dead state.Dead, alive bool) JobLook {
	st, stats := j.Summary(), j.LinkStats()
	st.AddDead(dead)
	l := JobLook{
		Number: j.Index(), Started: st.Started, Running: st.Running && (alive || dead.All == 0), Traffic: j.Traffic(), Verify: j.Verify(), Joined: st.Joined, Left: st.Left, Died: st.Died, Stopped: st.Stopped,
		Late: map[int]*Lateness{}, Arrived: map[int]uint64{},
	}
	for hop := range stats {
		if stats[hop].FirstPosted == 0 {
			continue
		}
		late, messages := &Lateness{}, uint64(0)
		for i := range stats[hop].Size {
			c := &stats[hop].Size[i]
			late.add(c)
			messages, l.Bytes = messages+c.Messages, l.Bytes+c.Bytes
		}
		l.Messages += messages
		if r.Fabric.Kernel {
			late.Took = 0 // of packets: the verdict's limits are for the time of messages
		}
		if r.Fabric.Kernel == l.Traffic { // the plugin does not know there when a message is due
			l.Late[hop] = late
		}
		if !l.Traffic { // it counts packets
			l.Arrived[hop] = messages
		}
	}
	if l.Traffic || l.Verify {
		return l
	}
	v := verdict.OfDead(r.file, r.fab, j, dead)
	if l.Reasons = v.Reasons; !v.Valid || len(v.Links) > 0 {
		l.Verdict = v.Word
	}
	return l
}
