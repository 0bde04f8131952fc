// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/watch"
	"github.com/ddlemu/ddlemu/shaper/fabric/live"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// printLast prints the last job of all fabrics, or of the fabric that is named.
func (g *global) printLast(dir *state.Dir) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	if name := g.named(); name != "" {
		names = []string{name}
	}
	var (
		last   *state.File
		job    state.Job
		latest int64
		open   []*state.File
	)
	defer func() {
		for _, file := range open {
			file.Close()
		}
	}()
	for _, name := range names {
		file, err := g.openIn(dir, name)
		if errors.Is(err, state.ErrNotUsable) && g.named() == "" {
			g.warn("%v", err)
			continue
		}
		if err != nil {
			return err
		}
		open = append(open, file)
		file.Reap()
		if j, at, ok := lastJob(file); ok && (last == nil || at > latest) {
			last, job, latest = file, j, at
		}
	}
	if last == nil {
		if len(names) == 0 {
			return g.noFabric("")
		}
		return badInput("no job has run on a fabric that is up in %s: start one with `ddlemu run --fabric %s -- COMMAND`; without --fabric, `run` and `bench` remove the fabric that they bring up", dir.Path, names[0])
	}
	return g.printJob(last, job)
}

// lastStatus is a job and its verdict under --json.
type lastStatus struct {
	Fabric string    `json:"fabric"`
	Job    jobStatus `json:"job"`
	verdict.Verdict
}

// printJob prints a job and its verdict.
func (g *global) printJob(file *state.File, job state.Job) error {
	fab, err := live.Fabric(file)
	if err != nil {
		return err
	}
	s := job.Status()
	v := verdict.Of(file, fab, job)
	if g.JSON {
		return g.printJSON(lastStatus{file.Name(), jobStatusOf(job, &s, nil), v})
	}
	when := "has run for"
	if !s.Running {
		when = "ran for"
	}
	fmt.Fprintf(g.Stdout, "job %d on fabric %s %s %s: %s joined, %s\n", job.Index(), file.Name(), when, span(s), units.Count(s.Joined, "rank"), watch.GoneText(s.Left, s.Died, s.Stopped))
	printVerdict(g.Stdout, v, g.more())
	return nil
}
