// SPDX-License-Identifier: Apache-2.0

// Package verdict decides whether a job's run is VALID: whether this host really carried what the fabric asks for. It
// uses only the counters that the participants wrote into the fabric's file.
//
// Each message has two times that depend only on what NCCL did: when it was posted and when it was due. Its lateness is
// the time from max(due, receive posted) until it was visible, plus its distortion. In real time, VALID needs, per link
// and size class,
//
//	p50 late <= max(1 us, 2 % T), p99 late <= max(5 us, 5 % T), sum late <= 2 % sum T
//
// where T = due - posted, and per link that the real time with unfinished messages exceeds that in the model by at most
// 2 %. If nodes cost time, the limits of lateness hold for what each of them does on a real clock, too: launches,
// actions of kernels, messages between its GPUs.
package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// Limits of the verdict.
const (
	maxLate      = 0.02 // lateness of all messages, of their time
	maxSlow      = 0.02 // time that bytes took longer than in the model, of the backlogged time
	maxHeldSends = 0.01 // sends that waited for shared memory, of all
	maxRateOff   = 0.01 // difference of a hop's busy time from its serialization time, of that
)

// ClassNames are the names of the size classes.
var ClassNames = [state.SizeClasses]string{"<= 4 KiB", "<= 64 KiB", "<= 1 MiB", "> 1 MiB"}

// Input is the data of a verdict.
type Input struct {
	TimeScale int
	Job       state.JobStatus
	Hops      []state.HopStatus
	Name      func(hop int) string
	Path      func(src, dst int) []link.PathHop // between NICs
	FlowPaths bool                              // each flow has a path of its own, of which Path gives one
	Endpoint  bool                              // the endpoints add time to a message
	Nodes     int                               // of the fabric, each with as many GPUs
	GPUs      int                               // per node, 0 = the job's ranks / nodes
	Packets   *Packets                          // nil except on the kernel datapath for a job of ranks
	Load      *Load                             // nil if not known
}

// withinNode says whether the fabric has one node, whose links have carried something.
func (in *Input) withinNode() bool {
	carried := false
	for i := range in.Hops {
		switch h := &in.Hops[i]; {
		case h.Kind == link.Link:
			return false
		case h.Kind.IsWithinNode():
			carried = carried || h.Counters.Segments > 0
		}
	}
	return carried
}

// Class is one size class of one link. Times are of the emulated network.
type Class struct {
	Name             string        `json:"class"`
	Messages         uint64        `json:"messages"`
	Bytes            uint64        `json:"bytes"`
	P50, P99, Max    time.Duration `json:"-"`
	LateP50          float64       `json:"late_p50_us"`
	LateP99          float64       `json:"late_p99_us"`
	LateMax          float64       `json:"late_max_us"`
	LatePercent      float64       `json:"late_percent"` // of the messages' time
	OverP50, OverP99 uint64        `json:"-"`
	meanTime         time.Duration // of a message in the model
}

// Link is one direction of a link. Rates are payload bits per second of the emulated network.
type Link struct {
	Name        string        `json:"link"`
	Bytes       uint64        `json:"bytes"`
	Messages    uint64        `json:"messages"`
	ModelBps    float64       `json:"model_bps"`    // in the model, while backlogged
	MeasuredBps float64       `json:"measured_bps"` // the same bytes in real time
	Busy        time.Duration `json:"busy_ns"`
	Idle        time.Duration `json:"idle_ns"`
	Aborted     uint64        `json:"aborted"`
	Unshaped    bool          `json:"unshaped"` // it has no rate, latency or loss, so it is not judged
	Classes     []Class       `json:"classes"`
}

// Trunk is a link between switches, and the bytes of all links over it. Its time is part of the time of those links.
type Trunk struct {
	Name  string `json:"trunk"`
	Bytes uint64 `json:"bytes"`
}

// Exit is a rank that was expected to die, or to end with a status that is not 0. If it did, that is no reason for
// INVALID. If it did not, neither: the figures are right, but the job did not do what it was started for.
type Exit struct {
	Rank int  `json:"rank"`
	Seen bool `json:"seen"`
}

// AddExits adds the exits that were expected of ranks. Bit n of seen says whether number n of them was seen.
func (v *Verdict) AddExits(ranks []int, seen uint64) {
	for i, r := range ranks {
		e := Exit{Rank: r, Seen: seen>>i&1 == 1}
		if e.Seen {
			v.Notes = append(v.Notes, fmt.Sprintf("rank %d has died or failed, as expected", r))
		}
		v.Exits = append(v.Exits, e)
	}
}

// Verdict is the judgement of one job. Make it with New, and add to it with Add.
type Verdict struct {
	Valid     bool      `json:"-"`
	Word      string    `json:"verdict"`           // VALID, INVALID or incomplete
	Cause     Cause     `json:"cause,omitempty"`   // of INVALID: that of the finding which explains the others
	Summary   string    `json:"summary,omitempty"` // that finding in a line
	Reasons   []string  `json:"reasons"`           // the texts of Findings
	Findings  []Finding `json:"findings"`
	Notes     []string  `json:"notes"` // remarks on the figures, VALID or not
	NoRank    bool      `json:"-"`     // no rank took part
	TakenDown bool      `json:"-"`     // the fabric was taken down while the job ran
	AllBytes  bool      `json:"-"`     // no rank loaded the plugin: the figures are of all packets on the kernel datapath
	SlowHost  bool      `json:"-"`     // this host is too slow, and nothing else is wrong: a larger time scale may help
	Load      *Load     `json:"load,omitempty"`
	Links     []Link    `json:"links"`
	Trunks    []Trunk   `json:"trunks,omitempty"`
	Exits     []Exit    `json:"expected_exits,omitempty"` // by who started the job

	first int // the index of the finding that Summary is about
}

// New returns a verdict that is VALID. load may be nil.
func New(load *Load) Verdict {
	return Verdict{Valid: true, Word: "VALID", Reasons: []string{}, Findings: []Finding{}, Notes: []string{},
		Links: []Link{}, Load: load}
}

// Add adds a reason for INVALID.
func (v *Verdict) Add(f Finding) {
	v.SlowHost = f.Slow && (v.Valid || v.SlowHost)
	v.Valid = false
	v.Reasons, v.Findings = append(v.Reasons, f.Text), append(v.Findings, f)
	if len(v.Findings) == 1 || explains(&f, &v.Findings[v.first]) {
		v.first, v.Cause = len(v.Findings)-1, f.Cause
	}
	if v.Word != Incomplete {
		v.Word, v.Summary = "INVALID", summaryOf(&v.Findings[v.first], v.Load)
	}
}

// Incomplete is the word of a verdict if not all was measured that was planned.
const Incomplete = "incomplete"

// Stop makes the verdict incomplete, because the run was interrupted or its budget was spent, as reason says. What was
// found until then stays.
func (v *Verdict) Stop(reason string) {
	v.Valid, v.SlowHost, v.Word, v.Summary = false, false, Incomplete, reason
	v.Reasons = append([]string{reason}, v.Reasons...)
}

// Join adds the findings of another run, and its load if this host was busier then. If that run is incomplete, so is v.
func (v *Verdict) Join(o Verdict) {
	if o.Load != nil && (v.Load == nil || o.Load.Runnable > v.Load.Runnable) {
		v.Load = o.Load
	}
	for _, f := range o.Findings {
		v.Add(f)
	}
	switch {
	case o.Word == Incomplete:
		v.Stop(o.Summary)
	case v.Word == "INVALID":
		v.Summary = summaryOf(&v.Findings[v.first], v.Load)
	}
}

// Of judges job j on the fabric fab of a file. On the kernel datapath it first waits until all packets of a job that
// just ended are counted.
func Of(file *state.File, fab *fabric.Fabric, j state.Job) Verdict {
	if fab.Config.OnKernel() {
		j.WaitCounted()
	}
	f := status.NewReader(file, fab).ReadJob(j)
	return OfStatus(f, &f.Jobs[len(f.Jobs)-1])
}

// OfStatus judges job j of a fabric. On the kernel datapath the fabric must be read after the packets of the job were
// counted: see [state.Job.WaitCounted].
func OfStatus(f *status.Reading, j *status.Job) Verdict {
	in, owned := NewInput(f, j.Counted), true
	if in.Packets != nil {
		in.Packets.Traffic, owned = j.Place.TrafficDuring(in.Packets.Traffic)
	}
	v := Judge(in)
	if !owned {
		v.Add(Finding{Cause: CauseFabric,
			Text: "the job's counters were reused for a later job: ask for a verdict before other jobs start, or use " +
				"a fabric per job"})
	}
	return v
}

// NewInput is the input of the verdict on these counters of a fabric. Its packets are all since the fabric came up: the
// caller subtracts those that are not the job's.
func NewInput(f *status.Reading, job state.JobStatus) Input {
	fab, end := f.Fabric, f.Fabric.Config.Endpoint
	in := Input{TimeScale: f.TimeScale, Job: job, Hops: f.InFile, Name: fab.HopName, Path: fab.Path,
		FlowPaths: fab.PerFlow(), Nodes: fab.Config.Nodes, GPUs: fab.Config.GPUsPerNode,
		Endpoint: end.Overhead > 0 || end.Gap > 0 ||
			fab.Config.Host.Any()}
	if job.Key != state.TrafficKey {
		in.Packets = PacketsOf(f)
	}
	return in
}

// Judge judges a job.
func Judge(in Input) Verdict {
	j := judge{in: in, v: New(in.Load)}
	broken := j.broken() // first: it explains that ranks died
	for _, f := range FromReasons(in.Job.Reasons) {
		j.v.Add(f)
	}
	if j.v.NoRank = in.Job.Joined == 0; j.v.NoRank {
		j.invalid(CauseJob, "no rank took part: nothing was emulated")
	}
	if in.Packets != nil && in.Job.Joined > 0 {
		j.packets(in.Packets)
	}
	for i := range in.Hops {
		if in.Hops[i].Kind == link.Link && in.Job.LinkStats[i].FirstPosted != 0 {
			stats := in.Job.LinkStats[i]
			if in.Packets != nil && in.Packets.Seen {
				stats = j.byPackets(&in.Hops[i], stats, &in.Packets.Traffic.LinkStats[i])
			}
			j.link(&in.Hops[i], &stats)
		}
		j.checkRate(&in.Hops[i])
	}
	j.nodes()
	bytes := j.bytesByHop()
	j.sumTrunks(bytes)
	j.noteFullQueues(bytes)
	if ended := in.Job.EndedRanks() >= in.Job.Joined; in.Job.Joined > 0 && ended && in.Job.Stopped == 0 && !broken &&
		len(j.v.Links) == 0 && !in.withinNode() {
		j.invalid(CauseBypass, "no message crossed an emulated link: nothing was emulated; %s", in.whyNone())
	}
	if n := in.Job.Stopped; n > 0 {
		j.v.Stop(StoppedText(n))
	}
	return j.v
}

// whyNone says why no message crossed a link, as far as it is known, and what to do.
func (in *Input) whyNone() string {
	nodes := in.Job.NodeSet.Nodes()
	switch {
	case len(nodes) != 1 || in.Nodes < 2:
		return "see with NCCL_DEBUG=INFO which net NCCL uses, and whether the ranks are on several nodes"
	case in.Job.Joined == 1:
		return "the job has one rank, and messages cross links only between ranks of several nodes"
	case in.GPUs < in.Job.Joined:
		return fmt.Sprintf("all %d ranks were on node%d: place each on its node with DDLEMU_NODE", in.Job.Joined, nodes[0])
	}
	return fmt.Sprintf("all %d ranks were on node%d, because a node has %s: add --set gpus_per_node=%d", in.Job.Joined,
		nodes[0], units.Count(in.GPUs, "GPU"), max(in.Job.Joined/in.Nodes, 1))
}

// StoppedText says why a job is incomplete of which the launcher ended so many ranks.
func StoppedText(ranks int) string {
	return fmt.Sprintf("the launcher ended %s before the job was done: it was interrupted, or its budget was spent",
		units.Count(ranks, "rank"))
}

type judge struct {
	in Input
	v  Verdict
}

// invalid adds a reason that is not about a figure of this host.
func (j *judge) invalid(cause Cause, format string, args ...any) {
	j.v.Add(Finding{Cause: cause, Text: fmt.Sprintf(format, args...)})
}

// late adds a reason that is this host's: figure, in a few words, is over times its limit on a link.
func (j *judge) late(link string, over float64, figure, text string) {
	j.v.Add(Finding{Cause: CauseHost, Text: text, Link: link, Over: over, Figure: figure, Slow: true})
}

func (j *judge) unscaled(ns int64) time.Duration {
	return time.Duration(ns / int64(j.in.TimeScale))
}

func (j *judge) link(h *state.HopStatus, c *state.LinkStats) {
	l := Link{Name: j.in.Name(h.Index), Aborted: c.Aborted, Busy: j.unscaled(c.WallBusy), Unshaped: j.unshaped(h)}
	l.Idle = max(j.unscaled(c.LastVisible-c.FirstPosted)-l.Busy, 0)
	for i := range c.Size {
		k := &c.Size[i]
		if k.Messages == 0 {
			continue
		}
		l.Bytes += k.Bytes
		l.Messages += k.Messages
		l.Classes = append(l.Classes, j.class(i, k))
	}
	l.ModelBps = rate(l.Bytes, j.unscaled(c.ModelBusy))
	l.MeasuredBps = rate(l.Bytes, j.unscaled(c.WallBusy))
	if !l.Unshaped {
		for i := range l.Classes {
			j.judgeLateness(messagesOn(l.Name, &l.Classes[i]), &l.Classes[i])
		}
	}
	if slow := float64(c.WallBusy)/max(float64(c.ModelBusy), 1) - 1; slow > maxSlow && !l.Unshaped {
		j.late(l.Name, slow/maxSlow, fmt.Sprintf("bytes took %.1f %% longer than in the model on %s, wanted %.0f %%",
			100*slow, l.Name, 100*maxSlow),
			fmt.Sprintf(
				"%s: while messages were in flight, bytes took %.1f %% longer than in the model (limit %.0f %%)",
				l.Name, 100*slow, 100*maxSlow))
	}
	if c.Stalls > 0 {
		j.invalid(CauseModel,
			"%s: a flow had more segments in flight than the model keeps: use a larger mtu or a shorter path", l.Name)
	}
	if float64(c.HeldSends) > maxHeldSends*float64(l.Messages) {
		j.invalid(CauseHost, "%s: %d of %d sends had to wait for shared memory: raise DDLEMU_MEMORY", l.Name,
			c.HeldSends, l.Messages)
	}
	j.v.Links = append(j.v.Links, l)
}

// broken adds a reason for each link that was down for so long that calls failed, and reports whether there is one.
func (j *judge) broken() (any bool) {
	for i := range j.in.Hops {
		if j.in.Hops[i].Kind == link.Link && j.in.Job.LinkStats[i].Broken > 0 {
			name := j.in.Name(i)
			j.v.Add(Finding{Cause: CauseJob,
				Text: name + " was down for longer than the transport allows, so calls failed", Link: name})
			any = true
		}
	}
	return any
}

// noteFullQueues adds a note if full queues paused trunks that the job used, while it ran. That is the least exact part
// of the model.
func (j *judge) noteFullQueues(bytes []uint64) {
	worst, sum := -1, state.Pauses{}
	for i := range j.in.Hops {
		paused := j.in.Job.Pauses[i]
		if j.in.Hops[i].Kind != link.Trunk || bytes[i] == 0 || paused.Times == 0 {
			continue
		}
		sum.Times += paused.Times
		if worst < 0 || paused.Ns > j.in.Job.Pauses[worst].Ns {
			worst = i
		}
	}
	if worst < 0 {
		return
	}
	j.v.Notes = append(j.v.Notes,
		fmt.Sprintf(
			"full queues paused links between switches %d times while this job ran, %s for %v: the rate of all flows "+
				"together is right, the shares of single flows may be inexact (docs/model.md)",
			sum.Times, j.in.Name(worst), j.unscaled(j.in.Job.Pauses[worst].Ns).Round(time.Microsecond)))
}

// unshaped says whether the path over a link takes no time and never did, so that no message can be late.
func (j *judge) unshaped(l *state.HopStatus) bool {
	if j.in.Endpoint || j.in.FlowPaths {
		return false
	}
	for _, step := range j.in.Path(l.Src, l.Dst) {
		h := &j.in.Hops[step.Hop]
		if s := &h.Spec; h.Changed || s.Bandwidth != 0 || s.Latency != 0 || s.Jitter.Value != 0 ||
			s.Loss != (link.Loss{}) || s.Down {
			return false
		}
	}
	return true
}

// sumTrunks lists the job's bytes on each trunk.
func (j *judge) sumTrunks(bytes []uint64) {
	for i := range j.in.Hops {
		if j.in.Hops[i].Kind == link.Trunk && bytes[i] > 0 {
			j.v.Trunks = append(j.v.Trunks, Trunk{j.in.Name(i), bytes[i]})
		}
	}
}

// bytesByHop are the job's bytes over each hop, by hop, counted at the links; where each flow has a path of its own,
// also at the links between switches.
func (j *judge) bytesByHop() []uint64 {
	bytes := make([]uint64, len(j.in.Hops))
	for i := range j.in.Hops {
		h := &j.in.Hops[i]
		if h.Kind == link.Trunk {
			bytes[i] += j.in.Job.LinkStats[i].CarriedBytes
		}
		if h.Kind != link.Link || j.in.Job.LinkStats[i].FirstPosted == 0 {
			continue
		}
		for _, step := range j.in.Path(h.Src, h.Dst) {
			if j.in.FlowPaths && j.in.Hops[step.Hop].Kind == link.Trunk {
				continue
			}
			sum := j.in.Job.LinkStats[i].Total()
			bytes[step.Hop] += sum.Bytes
		}
	}
	return bytes
}

func (j *judge) class(i int, k *state.Class) Class {
	p50, p99 := quantiles(k)
	c := Class{
		Name: ClassNames[i], Messages: k.Messages, Bytes: k.Bytes, OverP50: k.OverP50, OverP99: k.OverP99,
		P50: j.unscaled(p50), P99: j.unscaled(p99), Max: j.unscaled(k.MaxLate),
		LatePercent: 100 * float64(k.SumLate) / max(float64(k.SumTime), 1),
		meanTime:    j.unscaled(k.SumTime / int64(k.Messages)),
	}
	c.LateP50, c.LateP99, c.LateMax = units.Microseconds(c.P50), units.Microseconds(c.P99), units.Microseconds(c.Max)
	return c
}

// subject is a thing that is judged: messages on a link, or what a GPU of a node does.
type subject struct {
	place  string // in findings
	name   string // of the place, for people
	kind   string // messages, or something that a node does
	class  string // of sizes, "" if it has none
	ofNode bool
}

func messagesOn(name string, c *Class) subject {
	return subject{place: name, name: name, kind: "messages", class: c.Name}
}

// text is the beginning of a reason.
func (s *subject) text() string { return strings.TrimSpace(s.name + ", " + s.kind + " " + s.class) }

// figure says in a few words where it was late.
func (s *subject) figure() string {
	if !s.ofNode {
		return s.name
	}
	return s.name + ", " + s.kind
}

// end is the end of a reason.
func (s *subject) end() string {
	if !s.ofNode {
		return ""
	}
	return ": this host cannot play the node in time"
}

// judgeLateness judges the lateness of a class's messages, or of what a node does.
func (j *judge) judgeLateness(w subject, c *Class) {
	// Nearest rank: up to half of the messages, and up to one in a hundred, may be later than the limits.
	if c.OverP50 > c.Messages/2 {
		j.lateness(w, "p50", c.P50, wanted(c.meanTime, state.P50FloorNs, state.P50Part),
			fmt.Sprintf("%s: %d of %d were later than %s, at most half may be; the median lateness is %v",
				w.text(), c.OverP50, c.Messages, limit(state.P50FloorNs, state.P50Part), c.P50))
	}
	if c.OverP99 > c.Messages/100 {
		j.lateness(w, "p99", c.P99, wanted(c.meanTime, state.P99FloorNs, state.P99Part),
			fmt.Sprintf("%s: %d of %d were later than %s, at most 1 in 100 may be; the largest lateness is %v",
				w.text(), c.OverP99, c.Messages, limit(state.P99FloorNs, state.P99Part), c.Max))
	}
	if c.LatePercent > 100*maxLate {
		j.late(w.place, c.LatePercent/(100*maxLate),
			fmt.Sprintf("%s were %.1f %% of their time late on %s, wanted %.0f %%", w.kind, c.LatePercent, w.name,
				100*maxLate),
			fmt.Sprintf("%s: together %.1f %% of their time late (limit %.0f %%)", w.text(), c.LatePercent,
				100*maxLate)+w.end())
	}
}

// lateness adds that a quantile of the lateness of something is over its limit, which depends on the time of each
// message: most is the limit of a message of mean time.
func (j *judge) lateness(w subject, quantile string, late, most time.Duration, text string) {
	j.v.Add(Finding{
		Cause: CauseHost, Text: text + w.end(), Link: w.place, Over: max(float64(late)/float64(most), 1), Slow: true,
		P99: quantile == "p99",
		Figure: fmt.Sprintf("lateness %s %s on %s, wanted %s", quantile, units.Short(late), w.figure(),
			units.Short(most)),
	})
}

// wanted is the largest lateness that a message of this time may have.
func wanted(took time.Duration, floorNs, part int) time.Duration {
	return max(time.Duration(floorNs), took/time.Duration(part))
}

// limit is a limit on lateness in words.
func limit(floorNs, part int) string {
	return fmt.Sprintf("max(%d us, %d %% of their time)", floorNs/1000, 100/part)
}

// checkRate checks the engine's arithmetic: the busy time of a hop must be its line bytes divided by its rate.
func (j *judge) checkRate(h *state.HopStatus) {
	c := h.Counters
	if h.Changed || c.Segments == 0 || h.Spec.Bandwidth == 0 {
		return
	}
	p, err := link.NewParams(h.Spec, j.in.TimeScale)
	if err != nil {
		j.invalid(CauseModel, "%s: %v", j.in.Name(h.Index), err)
		return
	}
	want := float64(c.LineBytes) * float64(p.NsNum) / float64(p.NsDen)
	// Each segment's time is rounded up by up to a nanosecond, and the gap between messages (g) may occupy a port
	// longer than the message's bytes.
	most, least := float64(c.BusyNs), float64(c.BusyNs)-float64(c.Segments)
	if most < want*(1-maxRateOff) || (h.Kind != link.TxPort && h.Kind != link.RxPort && least > want*(1+maxRateOff)) {
		j.invalid(CauseModel,
			"%s: %d line bytes occupied it for %v, which is %v at its rate: this is an error of ddlemu",
			j.in.Name(h.Index), c.LineBytes, j.unscaled(c.BusyNs), j.unscaled(int64(want)))
	}
}

func rate(bytes uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) * 8 / d.Seconds()
}
