// SPDX-License-Identifier: Apache-2.0

// Package status says what a fabric that is up is now: how its links are set, what they have carried, its jobs and
// ranks, its clock and events. All commands that show a fabric, and the verdict, take that from here.
package status

import (
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Reading is a fabric at one moment. Times are of the emulated network unless a comment says "real". [Document] has it
// as JSON.
type Reading struct {
	Name        string        `json:"fabric"`
	Profile     string        `json:"profile"`
	Transport   string        `json:"transport"`
	Nodes       int           `json:"nodes"`
	GPUsPerNode int           `json:"gpus_per_node"` // 0 = the job's ranks / nodes
	NICsPerNode int           `json:"nics_per_node"`
	GPU         string        `json:"gpu_kind,omitempty"` // that the fabric names
	TimeScale   int           `json:"time_scale"`
	Seed        uint64        `json:"seed"`
	Up          time.Duration `json:"up_ns"`    // real, since it was brought up
	Time        time.Duration `json:"clock_ns"` // since it was brought up, by its clock

	Participants []Participant `json:"participants,omitzero"`
	Events       []Event       `json:"events,omitzero"` // the newest last

	Datapath string `json:"datapath"`
	Shaper   string `json:"shaper,omitempty"` // of the kernel datapath
	Subnet   string `json:"subnet,omitempty"`

	Clock        string        `json:"clock"`                   // real or virtual
	VirtualClock *clock.Status `json:"virtual_clock,omitempty"` // its time and its actors

	Problem string            `json:"problem,omitempty"` // why no job can use it, empty if one can
	Created int64             `json:"-"`                 // real, of CLOCK_MONOTONIC
	Fabric  *fabric.Fabric    `json:"-"`                 // its description, with the parameters that are in force
	Hops    []HopReading      `json:"-"`                 // as in Fabric
	InFile  []state.HopStatus `json:"-"`                 // the same as the file has them, with real times
	Jobs    []Job             `json:"-"`                 // that run, and the last ones that have ended
}

// OnKernel says whether the fabric is of the kernel datapath.
func (f *Reading) OnKernel() bool { return f.Datapath == configs.Kernel }

// Place is where a hop is.
type Place struct {
	Kind      link.HopKind
	Name      string // as node0:node1, or node0 tx for a port
	From, To  string // of a link
	NIC       string // of a port
	Direction string // of a port: tx or rx
	// of a link: the hops of its path, or of its paths if each flow has its own; of others, the hop alone. Only
	// [Reader.FindPaths] sets it.
	Path []int
}

// IsPort says whether it is one direction of a NIC's port.
func (p *Place) IsPort() bool { return p.Kind == link.TxPort || p.Kind == link.RxPort }

// HopReading is a port, a link or a link between switches, with its counters.
type HopReading struct {
	*Place
	link.Counters               // since the fabric was brought up; bytes are counted when they reserve the hop
	Spec          link.Spec     // its parameters in force
	Changed       bool          // since the fabric was brought up
	Reserved      time.Duration // from now on for bytes that are counted already
	Messages      uint64        // of the jobs that are listed, over the hop; on a port none are counted
	Classes       [state.FlowClasses]uint64
}

// Job is a job that runs or has run.
type Job struct {
	Number   int    `json:"job"`
	Running  bool   `json:"running"`
	Traffic  bool   `json:"traffic,omitempty"` // it stands for all traffic of the kernel datapath
	Verify   bool   `json:"verify,omitempty"`  // the probes of `ddlemu verify`, which has a verdict of its own
	Joined   int    `json:"joined"`            // ranks
	Left     int    `json:"left"`
	Died     int    `json:"died"`
	Stopped  int    `json:"stopped"`  // the launcher ended them before the job was done
	Messages uint64 `json:"messages"` // that have arrived; of Traffic, packets
	Bytes    uint64 `json:"bytes"`    // of these

	Counted state.JobStatus `json:"-"` // as the file has it, with real times; the dead that nobody has noted are in it
	Place   state.Job       `json:"-"`
}

// JobID tells a job from others that have had its number.
type JobID struct {
	Number  int
	Started int64 // ns of CLOCK_MONOTONIC
}

// ID is the job's.
func (j *Job) ID() JobID { return JobID{j.Number, j.Counted.Started} }

// Participant is a rank that takes part.
type Participant struct {
	Slot         int    `json:"slot"`
	Job          int    `json:"job"`
	Rank         int    `json:"rank"`
	Node         int    `json:"node"`
	World        int    `json:"world"`
	PID          int    `json:"pid"` // in its own pid namespace
	Alive        bool   `json:"alive"`
	MemoryUsed   uint64 `json:"memory_used_bytes"` // shared memory
	MemoryBudget uint64 `json:"memory_budget_bytes"`
	GPU          string `json:"gpu"`
}

// Event is a line of the fabric's log.
type Event struct {
	At   int64  `json:"at_ns"` // real time since the fabric was brought up
	Text string `json:"text"`
}

// LastJob is the user's job that began or ended last, nil if there is none.
func (f *Reading) LastJob() (last *Job) {
	for i := range f.Jobs {
		if j := &f.Jobs[i]; !j.Verify && (last == nil || j.Latest() > last.Latest()) {
			last = j
		}
	}
	return last
}

// Latest is when the job began or ended, in ns of CLOCK_MONOTONIC.
func (j *Job) Latest() int64 { return max(j.Counted.Started, j.Counted.Ended) }
