// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// membership is what a range says of a communicator: how many ranks it has, and which of them the process is.
type membership struct{ ranks, rank int }

// member is a rank of the job: a process that calls NCCL.
type member struct {
	*processUnits
	recording *recording
	process   process
	number    int
	comms     map[uint64]membership // by the id of the communicator; 0 if NCCL does not say the id
	several   bool                  // GPUs
}

// members are the processes of the recordings that call NCCL, in the order of the files and of their numbers.
func members(recordings []*recording) (list []*member) {
	for _, r := range recordings {
		first := len(list)
		for p, u := range unitsOf(r) {
			if len(u.all) > 0 || u.unknown > 0 {
				list = append(list, &member{processUnits: u, recording: r, process: p, number: -1,
					comms: map[uint64]membership{}})
			}
		}
		own := list[first:]
		slices.SortFunc(own, func(a, b *member) int { return cmp.Compare(a.process, b.process) })
		byProcess := map[process]*member{}
		for _, m := range own {
			byProcess[m.process] = m
		}
		for i := range r.ranges {
			e := &r.ranges[i]
			if m := byProcess[e.thread.process()]; m != nil {
				m.learn(e)
			}
		}
	}
	return list
}

// learn keeps what a range says of a communicator.
func (m *member) learn(e *rangeEvent) {
	p := &e.payload
	if p.number(fieldDevices, 0) > 1 {
		m.several = true
	}
	if !p.has[fieldRanks] || !p.has[fieldRank] {
		return
	}
	id := p.values[fieldComm]
	own := membership{p.number(fieldRanks, 0), p.number(fieldRank, 0)}
	before, known := m.comms[id]
	switch {
	case own.ranks < 1 || own.rank < 0 || own.rank >= own.ranks || own.ranks > workload.MaxRanks:
	case !known:
		m.comms[id] = own
	case before == own:
	case id != 0:
		m.several = true // the same communicator, as another rank
	case before.ranks != own.ranks:
		m.comms[id] = membership{-1, -1} // several, of different sizes
	}
}

// job is the ranks of a job.
type job struct {
	options input.Options
	members []*member
	world   int
	guessed int // ranks that are in the order of the recordings
	comms   perrank.Registry
	names   []map[uint64]string // of communicators, by member and id; "" for one of a single rank
	left    counts
}

// counts are of what a workload leaves out or does not know.
type counts struct {
	unsized, oneSided, singles, hostOnly, bounded, operators, noPeer int
	idle                                                             bool // waits are seen by gaps only
}

// number finds the number of ranks, and which rank each member is.
func (j *job) number() error {
	file := j.members[0].recording.file
	j.world = j.options.Ranks
	for _, m := range j.members {
		if m.several {
			return fmt.Errorf(
				"%s: a process calls NCCL for several GPUs, and no range says for which one: record a process for "+
					"each GPU", m.recording.file)
		}
		for _, own := range m.comms {
			j.world = max(j.world, own.ranks)
		}
	}
	if j.world == 0 {
		if len(j.members) == 1 {
			return fmt.Errorf(
				"%s does not say how many ranks the job had (ncclCommInitRank was not recorded): add --ranks N", file)
		}
		j.world = len(j.members)
	}
	if len(j.members) != j.world && (len(j.members) > 1 || !j.options.OneForAll) {
		return fmt.Errorf(
			"%s: the job had %d ranks, and the recordings are of %d: give all recordings, or one rank's, which "+
				"then "+
				"stands for all (--spmd)", file, j.world, len(j.members))
	}
	return j.assign(file)
}

// assign gives each member its rank: that in the communicators of all ranks, if they agree.
func (j *job) assign(file string) error {
	taken := map[int]*member{}
	for _, m := range j.members {
		for _, own := range m.comms {
			if own.ranks == j.world {
				m.number = max(m.number, own.rank)
			}
		}
		if m.number < 0 {
			continue
		}
		if taken[m.number] != nil {
			return fmt.Errorf("%s: two processes are rank %d of %d: give the recordings of one job", file, m.number,
				j.world)
		}
		taken[m.number] = m
	}
	next := 0
	for _, m := range j.members {
		if m.number >= 0 {
			continue
		}
		for taken[next] != nil {
			next++
		}
		m.number = next
		taken[next] = m
		j.guessed++
	}
	slices.SortFunc(j.members, func(a, b *member) int { return cmp.Compare(a.number, b.number) })
	return nil
}

// resolve names the communicators of the calls.
func (j *job) resolve() error {
	j.names = make([]map[uint64]string, len(j.members))
	users := map[uint64][]*member{}
	var order []uint64
	for i, m := range j.members {
		j.names[i] = map[uint64]string{}
		for _, u := range m.all {
			for _, e := range u.calls {
				id := e.payload.values[fieldComm]
				if list := users[id]; len(list) == 0 || list[len(list)-1] != m {
					if len(list) == 0 {
						order = append(order, id)
					}
					if !slices.Contains(list, m) {
						users[id] = append(list, m)
					}
				}
			}
		}
	}
	for _, id := range order {
		if err := j.communicator(id, users[id]); err != nil {
			return fmt.Errorf("%s: %w", users[id][0].recording.file, err)
		}
	}
	return nil
}

// communicator names a communicator with the calls of some members.
func (j *job) communicator(id uint64, users []*member) error {
	size := 0
	for _, m := range users {
		own := m.comms[id]
		if own.ranks < 0 {
			return errors.New(
				"NCCL before 2.25 does not say on which communicator a call is, and the job had some of different " +
					"sizes: " +
					"record with a newer NCCL, or take NCCL's log (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL)")
		}
		size = max(size, own.ranks)
	}
	switch {
	case size == 0 && id == 0:
		size = j.world
	case size == 0 && len(j.members) == j.world:
		size = len(users)
	case size == 0:
		return fmt.Errorf(
			"how many ranks communicator %#x has is not recorded (ncclCommInitRank): record from the start of the "+
				"job, or all ranks", id)
	}
	if size == 1 {
		for _, m := range users {
			j.names[slices.Index(j.members, m)][id] = ""
		}
		return nil
	}
	ranks, err := j.ranksOf(id, size, users)
	if err != nil {
		return err
	}
	name := workload.World
	if id != 0 {
		name = fmt.Sprintf("comm%d", len(j.comms.Comms))
	}
	name = j.comms.Add(name, ranks)
	for _, m := range users {
		j.names[slices.Index(j.members, m)][id] = name
	}
	return nil
}

// ranksOf are the ranks of a communicator, in its order.
func (j *job) ranksOf(id uint64, size int, users []*member) (workload.Ranks, error) {
	if size == j.world {
		if err := j.options.Limit.List(size); err != nil {
			return nil, err
		}
		return perrank.All(j.world), nil
	}
	if size != len(users) {
		return nil, fmt.Errorf(
			"which ranks are in communicator %#x, of %d ranks, is not known: the recordings have calls of %d of "+
				"them", id, size, len(users))
	}
	ranks := slices.Repeat(workload.Ranks{-1}, size)
	for i, m := range users { // in the order of the ranks of the job
		at := i
		if own, known := m.comms[id]; known {
			at = own.rank
		}
		if ranks[at] >= 0 {
			return nil, fmt.Errorf("two processes are rank %d of communicator %#x", at, id)
		}
		ranks[at] = m.number
	}
	return ranks, nil
}
