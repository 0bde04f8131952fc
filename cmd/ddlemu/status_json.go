// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/metrics"
	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/live"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// fabricStatus is the state of a fabric, as --json prints it. Fields may be added,
// none renamed. Times are those of the emulated network unless a comment says "real".
type fabricStatus struct {
	Fabric      string       `json:"fabric"`
	Links       []linkStatus `json:"links"`
	Profile     string       `json:"profile"`
	Transport   string       `json:"transport"`
	Nodes       int          `json:"nodes"`
	GPUsPerNode int          `json:"gpus_per_node"` // 0 = the job's ranks / nodes
	NICsPerNode int          `json:"nics_per_node"`
	TimeScale   int          `json:"time_scale"`
	Seed        uint64       `json:"seed"`
	UpNs        int64        `json:"up_ns"` // real time since it was brought up

	Ports        []portStatus        `json:"ports"`
	Jobs         []jobStatus         `json:"jobs"`
	Participants []participantStatus `json:"participants"`
	Events       []eventStatus       `json:"events"`

	Datapath string `json:"datapath"`
	Shaper   string `json:"shaper,omitempty"` // of the kernel datapath
	Subnet   string `json:"subnet,omitempty"`
	LeftOver string `json:"left_over,omitempty"` // why no process can use it any more

	Clock        string        `json:"clock"`                   // real or virtual
	VirtualClock *clock.Status `json:"virtual_clock,omitempty"` // its time and its actors

	summary string
	late    []metrics.Lateness // of the messages of each of Jobs; on the datapath shm
}

// linkStatus has the parameters and the counters of a link. Bytes are of payload,
// retransmissions included; messages are those of the jobs in fabricStatus.Jobs.
type linkStatus struct {
	From string `json:"from"`
	To   string `json:"to"`
	configs.LinkJSON
	link.Counters
	Messages uint64 `json:"messages"`
	Trunk    bool   `json:"trunk,omitempty"` // between switches; its latency adds to that of the links over it

	Path *pathStatus `json:"path,omitempty"` // of a link between NICs on a fabric with switches: with ports and trunks

	Classes *classStatus `json:"classes,omitempty"` // of Bytes; kernel datapath

	params configs.Link
}

// pathStatus is a path as if it were one link.
type pathStatus struct {
	BandwidthBps uint64 `json:"bandwidth_bps"` // of its slowest hop; 0 = unlimited
	LatencyNs    int64  `json:"latency_ns"`    // of all hops together
	Up           bool   `json:"up"`            // all of them
}

// classStatus is the payload by its purpose.
type classStatus struct {
	Plugin    uint64 `json:"plugin"`         // connections of libgoemu.so
	Bootstrap uint64 `json:"nccl_bootstrap"` // connections by which NCCL sets up
	Other     uint64 `json:"other"`
}

// portStatus is one direction of a NIC's port.
type portStatus struct {
	NIC       string `json:"nic"`
	Direction string `json:"direction"` // tx or rx
	configs.PortJSON
	link.Counters
}

// jobStatus is one job that runs or has run on the fabric.
type jobStatus struct {
	Job     int      `json:"job"`
	Running bool     `json:"running"`
	Traffic bool     `json:"traffic,omitempty"` // it stands for all traffic of the kernel datapath
	Joined  int      `json:"joined"`
	Left    int      `json:"left"`
	Died    int      `json:"died"`
	Stopped int      `json:"stopped"` // the launcher ended them before the job was done
	Reasons []string `json:"reasons"` // why it is INVALID, apart from its measured figures
	// Findings are the reasons with their causes.
	Findings []verdict.Finding `json:"findings"`
	Messages uint64            `json:"messages"`
	Bytes    uint64            `json:"bytes"`
}

// participantStatus is one participant.
type participantStatus struct {
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

// eventStatus is a line of the fabric's log.
type eventStatus struct {
	AtNs int64  `json:"at_ns"` // real time since the fabric was brought up
	Text string `json:"text"`
}

// statusOf reads the state of a fabric. Ranks that have died are in the list of
// participants once; after that, only in their job's count.
func statusOf(file *state.File) (*fabricStatus, error) {
	fab, err := live.Fabric(file)
	if err != nil {
		return nil, err
	}
	fixed := file.Fixed()
	s := &fabricStatus{
		Fabric: file.Name(), Profile: file.Profile(), Transport: fab.Config.Transport.Kind,
		Nodes: fixed.Nodes, GPUsPerNode: fixed.GPUsPerNode, NICsPerNode: fixed.NICsPerNode, TimeScale: fixed.TimeScale, Seed: fixed.Seed,
		UpNs: state.Now() - fixed.Created, Datapath: fab.Config.DatapathName(), Shaper: file.Shaper(), Subnet: fab.Config.Subnet, summary: summary(fab),
		Clock: fab.Config.ClockName(), VirtualClock: file.ClockStatus(),
		Links: []linkStatus{}, Ports: []portStatus{}, Jobs: []jobStatus{}, Participants: []participantStatus{}, Events: []eventStatus{},
	}
	for _, p := range file.Ranks() {
		s.Participants = append(s.Participants, participantStatus{
			Slot: p.Slot, Job: p.Job, Rank: p.Rank, Node: p.Node, World: p.World, PID: p.PID, Alive: p.Alive,
			MemoryUsed: p.Rings, MemoryBudget: p.Budget, GPU: p.GPU,
		})
	}
	file.Reap()
	messages := s.addJobs(file)
	addTrunks(fab, messages)
	for i, h := range file.Hops() {
		s.addHop(fab, h, messages[i])
	}
	s.LeftOver = job.Abandoned(file, fab)
	for _, e := range file.Events() {
		s.Events = append(s.Events, eventStatus{AtNs: int64(e.Time), Text: e.Text})
	}
	return s, nil
}

// addJobs adds the jobs and returns the messages of all of them by hop.
func (s *fabricStatus) addJobs(file *state.File) map[int]uint64 {
	messages := map[int]uint64{}
	for _, j := range file.Jobs() {
		st := j.Status()
		s.Jobs = append(s.Jobs, jobStatusOf(j, &st, messages))
		s.late = append(s.late, latenessOf(&st))
	}
	return messages
}

// addTrunks adds the messages of each link to the trunks on its path. Where each flow has a path of its own, the trunks
// have counted them.
func addTrunks(fab *fabric.Fabric, messages map[int]uint64) {
	if fab.PerFlow() {
		return
	}
	for i, h := range fab.Hops {
		if h.Kind != fabric.Link || messages[i] == 0 {
			continue
		}
		for _, step := range fab.Path(h.Src, h.Dst) {
			if fab.Hops[step.Hop].Kind == fabric.Trunk {
				messages[step.Hop] += messages[i]
			}
		}
	}
}

// latenessOf is how late the messages of a job were on all links.
func latenessOf(st *state.JobStatus) (late metrics.Lateness) {
	for hop := range st.LinkStats {
		for i := range st.LinkStats[hop].Size {
			late.Add(&st.LinkStats[hop].Size[i])
		}
	}
	return late
}

// jobStatusOf describes job j, whose status is st, and adds its messages by hop to messages, if not nil.
func jobStatusOf(j state.Job, st *state.JobStatus, messages map[int]uint64) jobStatus {
	job := jobStatus{
		Job: j.Index(), Running: st.Running, Traffic: j.Traffic(), Joined: st.Joined, Left: st.Left, Died: st.Died, Stopped: st.Stopped,
		Reasons: append([]string{}, st.Reasons.Words()...), Findings: append([]verdict.Finding{}, verdict.FromReasons(st.Reasons)...),
	}
	for hop := range st.LinkStats {
		for _, c := range st.LinkStats[hop].Size {
			if messages != nil {
				messages[hop] += c.Messages
			}
			job.Messages += c.Messages
			job.Bytes += c.Bytes
		}
		if messages != nil {
			messages[hop] += st.LinkStats[hop].CarriedMessages
		}
	}
	return job
}

// addHop adds a port, link or trunk.
func (s *fabricStatus) addHop(fab *fabric.Fabric, h state.HopStatus, messages uint64) {
	l, counters := fabric.LinkOf(h.Spec), h.Counters.Stated(s.TimeScale)
	if h.Kind == state.TxPort || h.Kind == state.RxPort {
		direction := "tx"
		if h.Kind == state.RxPort {
			direction = "rx"
		}
		s.Ports = append(s.Ports, portStatus{NIC: fab.NICName(h.Src), Direction: direction, PortJSON: l.PortJSON(), Counters: counters})
		return
	}
	from, to := fab.EndNames(fab.Hops[h.Index].Kind, h.Src, h.Dst)
	link := linkStatus{
		From: from, To: to, LinkJSON: l.JSON(), Counters: counters, Messages: messages,
		Trunk: h.Kind == state.Trunk, Classes: classes(fab, h), params: l,
	}
	if !link.Trunk && !fab.Config.Topology.IsStar() {
		whole := worstPath(fab, h.Src, h.Dst)
		link.Path = &pathStatus{uint64(whole.Bandwidth), int64(whole.Latency), whole.Up}
	}
	s.Links = append(s.Links, link)
}

// classes are the flow classes of a hop; nil on the datapath shm, which has none.
func classes(fab *fabric.Fabric, h state.HopStatus) *classStatus {
	if !fab.Config.OnKernel() {
		return nil
	}
	c := h.Classes
	return &classStatus{c[state.PluginFlow], c[state.BootstrapFlow], c[state.OtherFlow]}
}

// lastJob is the fabric's job that began or ended last, and when. ok is false if there is
// none.
func lastJob(file *state.File) (last state.Job, at int64, ok bool) {
	for _, j := range file.Jobs() {
		if j.Verify() {
			continue // no user's
		}
		s := j.Status()
		if when := max(s.Started, s.Ended); !ok || when > at {
			last, at, ok = j, when, true
		}
	}
	return last, at, ok
}

// span prints the real time that a job has run.
func span(s state.JobStatus) string {
	end := s.Ended
	if s.Running {
		end = state.Now()
	}
	return ago(time.Duration(max(end-s.Started, 0)))
}
