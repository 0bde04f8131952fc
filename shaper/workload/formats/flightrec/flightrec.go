// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// Read makes a workload of the dumps of all ranks of a job, or of the dump of one rank, which then stands for all.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	j, err := readJob(files, o.Limit)
	if err != nil {
		return nil, err
	}
	c := &converter{Job: j, options: o, single: len(j.Dumps) == 1}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.pair()
	lists := make([][]workload.Op, len(j.Dumps))
	for i, d := range j.Dumps {
		if lists[i], err = c.operations(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.File, err)
		}
	}
	if len(c.comms.Comms) == 0 && j.World > 1 {
		return nil, fmt.Errorf("%s: no call of a process group is understood%s", j.Dumps[0].File, c.why())
	}
	return perrank.Workload(j.World, lists, c.comms.Comms, c.source()), nil
}

// converter makes a workload of a job.
type converter struct {
	*Job
	options input.Options
	single  bool
	comms   perrank.Registry
	kept    map[*Dump]map[int32]*common // by the first entry of a launch
	made    int                         // operations of the dumps so far
	left
}

// common is what all ranks of a launch share.
type common struct {
	root  int   // in the group
	count int64 // of an all-to-all with parts of different sizes; 0 for others
}

// left counts what a workload leaves out or does not know.
type left struct {
	late, open, torn, halves, peerless, foreign, unsized, empty, singles, roots, unequal, hidden, unread, pairs,
	untyped, jumps int
	foreignName string
	// calls that not all ranks made, or that did not end
	named []string
}

// check refuses a job of which ranks are missing.
func (c *converter) check() error {
	calls := 0
	for _, d := range c.Dumps {
		calls += d.Len()
		c.unread += d.Unread
	}
	file := c.Dumps[0].File
	if calls == 0 {
		return fmt.Errorf("%s: no call: the flight recorder was empty (TORCH_FR_BUFFER_SIZE sets its size)", file)
	}
	for _, g := range c.Groups {
		if g.Guessed && c.single && c.options.Ranks == 0 {
			return fmt.Errorf("%s does not say which ranks group %s has: give the dumps of all ranks, or add --ranks N",
				file, g.GroupName.String())
		}
		if !g.Guessed && g.isDefault() {
			if err := c.options.CheckRanks(file, len(g.Ranks)); err != nil {
				return err
			}
		}
		if g.Guessed && g.isDefault() {
			if err := c.options.Limit.List(max(c.World, c.options.Ranks)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			g.Ranks = perrank.All(max(c.World, c.options.Ranks))
		}
	}
	c.World = max(c.World, c.options.Ranks)
	if c.World > workload.MaxRanks {
		return fmt.Errorf("%s: a job of %d ranks; at most %d are possible", file, c.World, workload.MaxRanks)
	}
	if len(c.Dumps) == c.World || c.single && c.options.OneForAll {
		return nil
	}
	return pytorch.MissingRanks(c.World, "dump",
		func(n int) bool { return slices.ContainsFunc(c.Dumps, func(d *Dump) bool { return d.Rank == n }) })
}

// why says why no call is understood.
func (c *converter) why() string {
	switch {
	case c.foreign > 0:
		return ", such as " + c.foreignName
	case c.unsized > 0:
		return ": the dump says of none what it moved"
	case c.hidden > 0:
		return ": they are coalesced, and before version 2.7 a dump does not have what is in such a group"
	case len(c.named)+c.open > 0:
		return ": no call was made by all ranks"
	}
	return ""
}

// source says where the workload is from, and what the dumps do not say.
func (c *converter) source() workload.Source {
	d := c.Dumps[0]
	s := workload.Source{Kind: "flightrec", File: input.Title(d.File, len(c.Dumps))}
	if d.Library != "" {
		s.Hardware = "NCCL " + d.Library
	}
	missing := input.Sentences(&s.Missing)
	missing(c.single && c.World > 1, "what other ranks do: all %d are taken to do what rank %d did, at the same times",
		c.World, d.Rank)
	missing(true, "what the host did between two calls: that time is a computation, also if the host waited for a call")
	missing(!c.single, "how the clocks of the hosts differ: each rank begins with its first call")
	missing(true, "streams: one for each process group is taken")
	missing(c.pairs > 0,
		"the communicator of %d sends and receives that are in no batch: one for each pair of ranks is taken", c.pairs)
	missing(c.roots > 0, "the root of %s: rank 0 of the group is taken", units.Count(c.roots, "call"))
	missing(c.untyped > 0, "the type of the elements of %s: %s is taken", units.Count(c.untyped, "call"),
		c.options.ElementType())
	for _, g := range c.Groups {
		missing(g.Guessed && g.isDefault(), "the ranks of group %s: all ranks of the job are taken",
			g.GroupName.String())
		missing(g.Guessed && !g.isDefault() && !g.divided,
			"the ranks of group %s: those that called it are taken, %s%s", g.GroupName.String(), g.Ranks, c.doubt())
		missing(g.divided, "the ranks of a group %s: its calls are of %d ranks; ranks in a row are taken, %s",
			g.GroupName.String(), len(g.Ranks), g.Ranks)
	}
	s.Notes = c.notes()
	return s
}

// doubt says why a number of a group may stand for several groups.
func (c *converter) doubt() string {
	if !c.Dumps[0].Unnumbered {
		return ""
	}
	return "; these may be several groups, because each rank of PyTorch 2.2 numbers its own groups"
}

// notes count what was left out.
func (c *converter) notes() (notes []string) {
	note := input.Counts(&notes)
	for _, d := range c.Dumps {
		if n := d.BeginsLate(); n > 0 {
			atLeast := ""
			if d.Unnumbered {
				atLeast = "at least "
			}
			notes = append(notes, fmt.Sprintf("rank %d: the recorder had overwritten %sits first %s", d.Rank, atLeast,
				units.Count(int(n), "call")))
		}
		if d.Partial() {
			notes = append(notes, fmt.Sprintf("rank %d: calls in the middle are not in the dump", d.Rank))
		}
	}
	note(c.late, "call", "left out, because another rank's recorder had overwritten it")
	const most = 8
	if n := len(c.named) - most; n > 0 {
		c.named = append(c.named[:most:most], fmt.Sprintf("%d calls more like this", n))
	}
	notes = append(notes, c.named...)
	note(c.torn, "call", "left out, because the dump of another rank of the group lacks it")
	say := input.Sentences(&notes)
	say(c.halves > 0, "sends and receives of which no dump has the other half: %d, left out", c.halves)
	note(c.unequal, "call", "an all-to-all or all-gather with parts that differ; the mean stands for them")
	note(c.unsized, "call", "left out, because the dump does not say what it moved")
	note(c.hidden, "coalesced group",
		"left out, because the dump does not have the calls in it (before version 2.7 of the format)")
	note(c.empty, "call", "left out, it moves nothing")
	note(c.singles, "call", "left out, of a group of one rank")
	say(c.peerless > 0, "sends and receives of which the dump does not say the other rank: %d, left out", c.peerless)
	say(c.jumps > 0, "calls of which the recorder's clock is before 1970, or more than two years from the call before: %d, "+
		"no computation was taken before them", c.jumps)
	note(c.foreign, "call", "left out, not understood, such as "+strings.TrimSpace(c.foreignName))
	note(c.unread, "entry", "left out, not understood")
	return notes
}
