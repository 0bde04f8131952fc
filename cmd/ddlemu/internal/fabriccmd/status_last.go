// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/watch"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// printLast prints the last job of the fabrics.
func printLast(g *cli.Global, dir *state.Dir, names []string) error {
	var (
		last   *status.Reading
		latest *status.Job
		judged verdict.Verdict
	)
	err := eachFabric(g, dir, names, func(file *state.File) error {
		file.Reap()
		f, err := status.Read(file)
		if err != nil {
			return err
		}
		if j := f.LastJob(); j != nil && (last == nil || j.Latest() > latest.Latest()) {
			last, latest, judged = f, j, verdict.Of(file, f.Fabric, j.Place)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case last != nil:
		return printJob(g, last, latest, judged)
	case len(names) == 0:
		return g.NoFabric("")
	}
	return cli.BadInput(
		"no job has run on a fabric that is up in %s: start one with `ddlemu run --fabric %s -- COMMAND`; without "+
			"--fabric, `run` and `bench` remove the fabric that they bring up", dir.Path, names[0])
}

// lastStatus is a job and its verdict under --json.
type lastStatus struct {
	Fabric string         `json:"fabric"`
	Job    status.JobView `json:"job"`
	verdict.Verdict
}

// printJob prints a job and its verdict.
func printJob(g *cli.Global, f *status.Reading, j *status.Job, v verdict.Verdict) error {
	if g.JSON {
		return g.PrintJSON(lastStatus{f.Name, verdict.ViewOf(j), v})
	}
	when := "has run for"
	if !j.Running {
		when = "ran for"
	}
	fmt.Fprintf(g.Stdout, "job %d on fabric %s %s %s: %s joined, %s\n", j.Number, f.Name, when, span(j),
		units.Count(j.Joined, "rank"), watch.GoneText(j.Left, j.Died, j.Stopped))
	cli.PrintVerdict(g.Stdout, v, g.More())
	return nil
}
