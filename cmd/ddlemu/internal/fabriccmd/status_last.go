// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/watch"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// printLast prints the last job of all fabrics, or of the fabric that is named.
func printLast(g *cli.Global, dir *state.Dir) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	if name := g.Named(); name != "" {
		names = []string{name}
	}
	var (
		last   *status.Reading
		latest *status.Job
		of     *state.File // that has them
		open   []*state.File
	)
	defer func() {
		for _, file := range open {
			file.Close()
		}
	}()
	for _, name := range names {
		file, err := g.OpenIn(dir, name)
		var f *status.Reading
		if err == nil {
			open = append(open, file)
			file.Reap()
			f, err = status.Read(file)
		}
		if errors.Is(err, state.ErrNotUsable) && g.Named() == "" {
			g.Warn("%v", err)
			continue
		}
		if err != nil {
			return err
		}
		if j := f.LastJob(); j != nil && (last == nil || j.Latest() > latest.Latest()) {
			last, latest, of = f, j, file
		}
	}
	if last == nil {
		if len(names) == 0 {
			return g.NoFabric("")
		}
		return cli.BadInput(
			"no job has run on a fabric that is up in %s: start one with `ddlemu run --fabric %s -- COMMAND`; without "+
				"--fabric, `run` and `bench` remove the fabric that they bring up", dir.Path, names[0])
	}
	return printJob(g, last, latest, verdict.Of(of, last.Fabric, latest.Place))
}

// lastStatus is a job and its verdict under --json.
type lastStatus struct {
	Fabric string    `json:"fabric"`
	Job    JobStatus `json:"job"`
	verdict.Verdict
}

// printJob prints a job and its verdict.
func printJob(g *cli.Global, f *status.Reading, j *status.Job, v verdict.Verdict) error {
	if g.JSON {
		return g.PrintJSON(lastStatus{f.Name, jobStatusOf(j), v})
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
