// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// fabricStatus prints the state of a fabric.
type fabricStatus struct{ status.Document }

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
	s := &fabricStatus{status.Document{Reading: f, Links: f.Links(), Ports: f.Ports(), Jobs: []status.JobView{},
		LeftOver: job.Abandoned(file, f.Fabric), Private: cli.Owner(file), InForce: &in}}
	for i := range f.Jobs {
		s.Jobs = append(s.Jobs, verdict.ViewOf(&f.Jobs[i]))
	}
	return s, nil
}

// span prints the real time that a job has run.
func span(j *status.Job) string {
	end := j.Counted.Ended
	if j.Running {
		end = state.Now()
	}
	return cli.Ago(time.Duration(max(end-j.Counted.Started, 0)))
}
