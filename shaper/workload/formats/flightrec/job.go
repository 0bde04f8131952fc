// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Job is the dumps of the ranks of a job.
type Job struct {
	Dumps  []*Dump // in the order of their ranks
	World  int     // ranks of the job, as far as the dumps say
	Groups []*Group
}

// Group is a process group of a job.
type Group struct {
	GroupName
	Ranks workload.Ranks // in the group's order
	// Guessed says that no dump lists the ranks. They are those that called the group, or all ranks of the job for the
	// default group.
	Guessed bool
	divided bool // the ranks that called the group are of several groups of one name
	// Calls are the launches of each rank that has a dump, in order.
	Calls map[int][]Launch
}

// Launch is what a rank called at once: one call, or the calls of a coalesced group.
type Launch struct {
	Seq uint32 // of collectives, or of sends and receives
	P2P bool
	// First and Last are places in the dump. Calls of other groups may be between them.
	First, Last int32
}

// Entries are the calls of a launch, without the marker of a coalesced group.
func (l *Launch) Entries(d *Dump) []*Entry {
	var out []*Entry
	for _, at := range l.places(d) {
		if e := d.At(int(at)); !e.Marker() {
			out = append(out, e)
		}
	}
	return out
}

// places are the places of all entries.
func (l *Launch) places(d *Dump) []int32 {
	group := d.At(int(l.First)).Group
	out := []int32{l.First}
	for at := l.First + 1; at <= l.Last; at++ {
		if d.At(int(at)).Group == group {
			out = append(out, at)
		}
	}
	return out
}

// End is the entry whose state is the launch's state: the last one.
func (l *Launch) End(d *Dump) *Entry { return d.At(int(l.Last)) }

// Done tells whether a launch has ended. Only the end of a coalesced group says whether the calls in it have ended.
func (l *Launch) Done(d *Dump) bool {
	return d.Done(l.End(d))
}

// Done tells whether a call has ended, as far as its backend says: NCCL says when a call is completed, and gives one up
// (retired) that has timed out. Others only say that nobody waits for the call any more.
func (d *Dump) Done(e *Entry) bool {
	return e.State == Completed || e.Retired && !reportsEnd(e.Func.Library)
}

// reportsEnd tells whether the calls of a backend become completed.
func reportsEnd(library string) bool {
	return slices.Contains([]string{"nccl", "ncclx", "nccl2", "nccl-lazy", "xccl", "rccl", "rcclx", "mccl", "hccl"},
		library)
}

// EndRecorded tells whether the backend says when the call has ended. The hook of PyTorch 2.15 that records other
// backends does not, unless they help.
func (e *Entry) EndRecorded() bool {
	return e.State == Completed || reportsEnd(e.Func.Library) || e.Func.Library == "gloo"
}

// TimedOut tells whether the backend has given the call up.
func (e *Entry) TimedOut() bool {
	return e.Retired && e.State != Completed && reportsEnd(e.Func.Library)
}

// ReadJob reads the dumps of the ranks of a job. If there are several, each must say its rank, by the name of its file.
func ReadJob(files []input.File) (*Job, error) { return readJob(files, nil) }

// readJob reads at most as many calls as limit has.
func readJob(files []input.File, limit *input.Limit) (*Job, error) {
	defer bounds.CollectEarly()()
	r := newReader(limit)
	j := &Job{}
	for _, f := range files {
		d, err := r.dump(f)
		if err != nil {
			return nil, err
		}
		j.Dumps = append(j.Dumps, d)
	}
	if err := j.number(); err != nil {
		return nil, err
	}
	j.findGroups()
	for _, d := range j.Dumps {
		if err := j.launch(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.File, err)
		}
	}
	j.divide()
	all := perrank.All(j.World)
	for _, g := range j.Groups {
		if g.Guessed && g.isDefault() {
			g.Ranks = all
		}
	}
	return j, nil
}

// isDefault tells whether the group is the one that init_process_group makes: all ranks.
func (g *GroupName) isDefault() bool { return g.Desc == defaultGroup }

// defaultGroup is how PyTorch describes the group of init_process_group.
const defaultGroup = "default_pg"

// number gives each dump its rank.
func (j *Job) number() error {
	for _, d := range j.Dumps {
		if d.Rank < 0 || d.Rank >= workload.MaxRanks {
			d.Rank = d.rankOfCalls()
		}
		if d.Rank < 0 && len(j.Dumps) == 1 {
			d.Rank = d.firstRank()
		}
		if d.Rank < 0 {
			return fmt.Errorf(
				"%s does not say of which rank it is: let its name end with the rank, as nccl_trace_rank_3 does",
				d.File)
		}
	}
	slices.SortStableFunc(j.Dumps, func(a, b *Dump) int { return cmp.Compare(a.Rank, b.Rank) })
	for i, d := range j.Dumps {
		if i > 0 && j.Dumps[i-1].Rank == d.Rank {
			return fmt.Errorf("%s and %s are both of rank %d: give one dump per rank", j.Dumps[i-1].File, d.File,
				d.Rank)
		}
		j.World = max(j.World, d.Rank+1)
		for _, g := range d.Groups {
			j.World = max(j.World, slices.Max(g.Ranks)+1)
		}
	}
	return nil
}

// rankOfCalls is the rank that sends and receives name, -1 if there is none. They name ranks of the group.
func (d *Dump) rankOfCalls() int {
	for i := range d.Len() {
		e := d.At(i)
		ranks := d.Groups[e.Group.Name].Ranks
		at, _ := e.ends()
		if at >= 0 && at < len(ranks) {
			return ranks[at]
		}
	}
	return -1
}

// ends are the rank in the group that made the call, if the call says it, and the other rank of a send or a receive.
func (e *Entry) ends() (self, peer int) {
	switch e.Func.Name {
	case "send":
		return e.Func.From, e.Func.To
	case "recv":
		return e.Func.To, e.Func.From
	}
	return -1, e.Func.From
}

// firstRank is the first rank that is in all groups.
func (d *Dump) firstRank() int {
	first := -1
	var common workload.Ranks
	for _, g := range d.Groups {
		if common == nil {
			common = slices.Clone(g.Ranks)
		} else {
			common = slices.DeleteFunc(common, func(r int) bool { return !slices.Contains(g.Ranks, r) })
		}
	}
	if len(common) > 0 {
		first = slices.Min(common)
	} else if len(d.Groups) == 0 {
		first = 0
	}
	return first
}

// groupKey tells groups apart: groups of different ranks may have one name.
type groupKey struct {
	name  string
	ranks string
}

// findGroups finds the groups of all dumps.
func (j *Job) findGroups() {
	byKey := map[groupKey]*Group{}
	add := func(key groupKey, g Group) *Group {
		if known, ok := byKey[key]; ok {
			if known.Desc == "" {
				known.Desc = g.Desc
			}
			return known
		}
		g.Calls = map[int][]Launch{}
		byKey[key] = &g
		j.Groups = append(j.Groups, &g)
		return &g
	}
	for _, d := range j.Dumps {
		for name, config := range d.Groups {
			add(groupKey{name, config.Ranks.String()},
				Group{GroupName: GroupName{name, config.Desc}, Ranks: config.Ranks})
		}
	}
	for _, d := range j.Dumps {
		last := (*GroupName)(nil)
		for i := range d.Len() {
			n := d.At(i).Group
			if n == last || j.group(d, n) != nil {
				last = n
				continue
			}
			last = n
			g := add(groupKey{name: n.Name}, Group{GroupName: *n, Guessed: true})
			g.Ranks = append(g.Ranks, d.Rank)
		}
	}
	slices.SortFunc(j.Groups, func(a, b *Group) int {
		byNumber := cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
		return cmp.Or(byNumber, slices.Compare(a.Ranks, b.Ranks))
	})
}

// group is the group of that name of a rank, nil if there is none.
func (j *Job) group(d *Dump, name *GroupName) *Group {
	config, known := d.Groups[name.Name]
	for _, g := range j.Groups {
		if g.Name == name.Name && (known && !g.Guessed && slices.Equal(g.Ranks, config.Ranks) || !known &&
			slices.Contains(g.Ranks, d.Rank)) {
			return g
		}
	}
	return nil
}

// launch divides the entries of a dump into launches.
func (j *Job) launch(d *Dump) error {
	groups := map[*GroupName]*Group{}
	for i := range d.Len() {
		e := d.At(i)
		g, ok := groups[e.Group]
		if !ok {
			g = j.group(d, e.Group)
			groups[e.Group] = g
			if !slices.Contains(g.Ranks, d.Rank) {
				return fmt.Errorf("it is of rank %d by its name, and calls group %s, of ranks %s", d.Rank,
					g.GroupName.String(), g.Ranks)
			}
		}
		if at, _ := e.ends(); at >= 0 && !g.Guessed && (at >= len(g.Ranks) || g.Ranks[at] != d.Rank) {
			return fmt.Errorf("it is of rank %d by its name, and has %s of group %s, of ranks %s", d.Rank, e.Func,
				g.GroupName.String(), g.Ranks)
		}
		calls := g.Calls[d.Rank]
		if n := len(calls) - 1; n >= 0 && calls[n].takes(d, e) {
			calls[n].Last = int32(i)
			continue
		}
		l := Launch{Seq: e.Coll, First: int32(i), Last: int32(i)}
		if e.IsP2P {
			l.Seq, l.P2P = e.P2P, true
		}
		g.Calls[d.Rank] = append(calls, l)
	}
	return nil
}

// takes tells whether the entry, the next one of its group, belongs to the launch: it has the same numbers, and the
// launch is not ended yet.
func (l *Launch) takes(d *Dump, e *Entry) bool {
	last := l.End(d)
	if last.Marker() || last.Coll != e.Coll {
		return false
	}
	return last.P2P == e.P2P && last.IsP2P == e.IsP2P || e.Marker()
}

// BeginsLate tells whether the recorder has overwritten calls, and how many.
func (d *Dump) BeginsLate() int64 {
	if d.Len() == 0 {
		return 0
	}
	return max(d.At(0).Record, 0)
}

// Partial tells whether calls in the middle are missing, as in a dump of only those that had not completed.
func (d *Dump) Partial() bool {
	for i := 1; i < d.Len(); i++ {
		if d.At(i).Record > d.At(i-1).Record+1 {
			return d.Unread == 0
		}
	}
	return false
}

// Numbered is a collective with its number in the group.
type Numbered struct {
	Number uint32
	Launch *Launch
}

// Collectives are the launches of collectives of a rank, by their number. Some versions of PyTorch count a batch of
// sends and receives as a collective too: the numbers are taken without these. doubtful says that there are such
// batches, and that the recorder has overwritten calls, so that their number is not known.
func (g *Group) Collectives(d *Dump) (out []Numbered, doubtful bool) {
	calls := g.Calls[d.Rank]
	late := d.BeginsLate() > 0
	batches, last := uint32(0), uint32(0)
	for i := range calls {
		l := &calls[i]
		coll := d.At(int(l.First)).Coll
		switch {
		case !l.P2P:
			out = append(out, Numbered{l.Seq - batches, l})
		case late:
			doubtful = doubtful || i > 0 && coll > last
		case coll > last:
			batches += coll - last
		}
		last = max(last, coll)
	}
	byNumber := func(a, b Numbered) int { return cmp.Compare(a.Number, b.Number) }
	if !slices.IsSortedFunc(out, byNumber) {
		slices.SortStableFunc(out, byNumber)
	}
	return slices.CompactFunc(out, func(a, b Numbered) bool { return a.Number == b.Number }), doubtful
}

// EachNumber calls each with every number that one of the lists has, in order, and with the launch of each list: nil
// where the list does not have the number.
func EachNumber(lists [][]Numbered, each func(number uint32, launches []*Launch)) {
	at := make([]int, len(lists))
	launches := make([]*Launch, len(lists))
	for {
		number, found := uint32(math.MaxUint32), false
		for i, list := range lists {
			if at[i] < len(list) {
				number, found = min(number, list[at[i]].Number), true
			}
		}
		if !found {
			return
		}
		for i, list := range lists {
			launches[i] = nil
			if at[i] < len(list) && list[at[i]].Number == number {
				launches[i] = list[at[i]].Launch
				at[i]++
			}
		}
		each(number, launches)
	}
}

// Newest is the time of the newest call of all dumps, in ns since 1970; 0 if there is none.
func (j *Job) Newest() int64 {
	newest := int64(math.MinInt64)
	for _, d := range j.Dumps {
		for i := range d.Len() {
			newest = max(newest, d.At(i).Created)
		}
	}
	return max(newest, 0)
}
