// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// fabricStatus is the state of a fabric, as --json prints it. Fields may be added,
// none renamed. Times are of the emulated network unless a comment says "real".
type fabricStatus struct {
	*status.Reading
	Links    []status.Link `json:"links"`
	Ports    []status.Port `json:"ports"`
	Jobs     []jobStatus   `json:"jobs"`
	LeftOver string        `json:"left_over,omitempty"` // why no process can use it any more
	Private  string        `json:"private,omitempty"`   // whose it is, if a command or a job made it for itself
	// InForce is the fabric's links and GPUs now, and the differences from its profile.
	InForce configs.InForce `json:"fabric_in_force"`
}

// jobStatus is one job that runs or has run on the fabric.
type jobStatus struct {
	status.Job
	Reasons []string `json:"reasons"` // why it is INVALID, apart from its measured figures
	// Findings are the reasons with their causes.
	Findings []verdict.Finding `json:"findings"`
}

// statusOf reads the state of a fabric. Ranks that have died are in the list of
// participants once; after that, only in their job's count.
func statusOf(file *state.File) (*fabricStatus, error) {
	f, err := status.Read(file)
	if err != nil {
		return nil, err
	}
	in, err := cli.InForceOf(f.Fabric)
	if err != nil {
		return nil, err
	}
	file.Reap()
	f.Events = status.Events(file) // with the deaths that were just noted
	s := &fabricStatus{Reading: f, Links: f.Links(), Ports: f.Ports(), Jobs: []jobStatus{},
		LeftOver: job.Abandoned(file, f.Fabric), Private: cli.Owner(file), InForce: in}
	for i := range f.Jobs {
		s.Jobs = append(s.Jobs, jobStatusOf(&f.Jobs[i]))
	}
	return s, nil
}

func jobStatusOf(j *status.Job) jobStatus {
	r := j.Counted.Reasons
	return jobStatus{Job: *j, Reasons: append([]string{}, r.Words()...),
		Findings: append([]verdict.Finding{}, verdict.FromReasons(r)...)}
}

// span prints the real time that a job has run.
func span(j *status.Job) string {
	end := j.Counted.Ended
	if j.Running {
		end = state.Now()
	}
	return cli.Ago(time.Duration(max(end-j.Counted.Started, 0)))
}
