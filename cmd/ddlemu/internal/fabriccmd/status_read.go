// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"errors"
	"io/fs"
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

// printStatusJSON prints the state of a fabric as JSON.
func printStatusJSON(g *cli.Global, file *state.File) error {
	s, err := statusOf(file)
	if err != nil {
		return err
	}
	return g.PrintJSON(s)
}

// openFabrics opens the folder of fabrics. names are those in it, or the one that the user named.
func openFabrics(g *cli.Global) (dir *state.Dir, names []string, err error) {
	dir, err = g.OpenDir(false)
	switch name := g.Named(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, g.NoFabric(name)
	case err != nil:
		return nil, nil, err
	case name != "":
		return dir, []string{name}, nil
	}
	if names, err = dir.Names(); err != nil {
		dir.Close()
	}
	return dir, names, err
}

// eachFabric calls read with each of the fabrics. One that cannot be used is an error if the user named it, else a
// warning; one that was taken down meanwhile is left out.
func eachFabric(g *cli.Global, dir *state.Dir, names []string, read func(*state.File) error) error {
	for _, name := range names {
		file, err := g.OpenIn(dir, name)
		if err == nil {
			err = errors.Join(read(file), file.Close())
		}
		switch {
		case err == nil:
		case g.Named() != "":
			return err
		case errors.Is(err, fs.ErrNotExist): // taken down meanwhile
		case errors.Is(err, state.ErrNotUsable):
			g.Warn("%v", err)
		default:
			return err
		}
	}
	return nil
}

// statusOfAll is the state of the fabrics that can be used.
func statusOfAll(g *cli.Global, dir *state.Dir, names []string) (all []*fabricStatus, err error) {
	all = []*fabricStatus{}
	err = eachFabric(g, dir, names, func(file *state.File) error {
		s, err := statusOf(file)
		if err == nil {
			all = append(all, s)
		}
		return err
	})
	return all, err
}
