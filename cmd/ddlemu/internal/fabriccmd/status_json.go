// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// fabricStatus is the state of a fabric, as --json prints it. Fields may be added,
// none renamed. Times are those of the emulated network unless a comment says "real".
type fabricStatus struct {
	*status.Reading
	Links    []LinkStatus `json:"links"`
	Ports    []portStatus `json:"ports"`
	Jobs     []JobStatus  `json:"jobs"`
	LeftOver string       `json:"left_over,omitempty"` // why no process can use it any more
}

// LinkStatus has the parameters and the counters of a link. Bytes are of payload,
// retransmissions included; messages are those of the jobs in fabricStatus.Jobs.
type LinkStatus struct {
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

// JobStatus is one job that runs or has run on the fabric.
type JobStatus struct {
	status.Job
	Reasons []string `json:"reasons"` // why it is INVALID, apart from its measured figures
	// Findings are the reasons with their causes.
	Findings []verdict.Finding `json:"findings"`
}

// StatusOf reads the state of a fabric. Ranks that have died are in the list of
// participants once; after that, only in their job's count.
func StatusOf(file *state.File) (*fabricStatus, error) {
	f, err := status.Read(file)
	if err != nil {
		return nil, err
	}
	file.Reap()
	f.Events = status.Events(file) // with the deaths that were just noted
	s := &fabricStatus{Reading: f, Links: []LinkStatus{}, Ports: []portStatus{}, Jobs: []JobStatus{},
		LeftOver: job.Abandoned(file, f.Fabric)}
	for i := range f.Jobs {
		s.Jobs = append(s.Jobs, jobStatusOf(&f.Jobs[i]))
	}
	for i := range f.Hops {
		if h := &f.Hops[i]; h.IsPort() {
			set := fabric.LinkOf(h.Spec)
			s.Ports = append(s.Ports, portStatus{NIC: h.NIC, Direction: h.Direction, PortJSON: set.PortJSON(),
				Counters: h.Counters})
		} else {
			s.Links = append(s.Links, linkStatusOf(f, i))
		}
	}
	return s, nil
}

func jobStatusOf(j *status.Job) JobStatus {
	r := j.Counted.Reasons
	return JobStatus{Job: *j, Reasons: append([]string{}, r.Words()...),
		Findings: append([]verdict.Finding{}, verdict.FromReasons(r)...)}
}

// linkStatusOf is a link or trunk.
func linkStatusOf(f *status.Reading, hop int) LinkStatus {
	h := &f.Hops[hop]
	params := fabric.LinkOf(h.Spec)
	l := LinkStatus{
		From: h.From, To: h.To, LinkJSON: params.JSON(), Counters: h.Counters, Messages: h.Messages,
		Trunk: h.Kind == fabric.Trunk, params: params,
	}
	if f.OnKernel() { // the datapath shm has no flow classes
		l.Classes = &classStatus{h.Classes[state.PluginFlow], h.Classes[state.BootstrapFlow],
			h.Classes[state.OtherFlow]}
	}
	if !l.Trunk && !f.Fabric.Config.Topology.IsStar() {
		whole := worstPath(f.Fabric, f.InFile[hop].Src, f.InFile[hop].Dst)
		l.Path = &pathStatus{uint64(whole.Bandwidth), int64(whole.Latency), whole.Up}
	}
	return l
}

// span prints the real time that a job has run.
func span(j *status.Job) string {
	end := j.Counted.Ended
	if j.Running {
		end = state.Now()
	}
	return cli.Ago(time.Duration(max(end-j.Counted.Started, 0)))
}
