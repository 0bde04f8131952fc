// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Comm is a communicator of some of the ranks.
type Comm struct {
	// Name has no spaces and at most 63 bytes. It is "" for the communicator of Init.
	Name string
	// Ranks are the numbers of the processes, by rank in the communicator.
	Ranks []int
}

// madeComm is a communicator that exists.
type madeComm struct {
	Comm
	logs []*nccllog.Comm // by rank in the communicator; nil for one that has no log
}

// world is the communicator of all ranks.
func (r *Ranks) world() Comm {
	all := make([]int, len(r.processes))
	for rank := range all {
		all[rank] = rank
	}
	return Comm{Ranks: all}
}

// nothing is a command that does nothing. In a step every rank gets a command and must answer.
const nothing = "reserve bytes=0"

// members is a step of the ranks of c. command gets the rank in c.
func (r *Ranks) members(ctx context.Context, c Comm, name string, command func(rank int) string) ([]message, error) {
	return r.step(ctx, name, func(process int) string {
		if rank := slices.Index(c.Ranks, process); rank >= 0 {
			return command(rank)
		}
		return nothing
	})
}

// InitComm makes a communicator. A process can be in several.
func (r *Ranks) InitComm(ctx context.Context, c Comm) error {
	if r.failed != nil {
		return r.failed
	}
	answers, err := r.members(ctx, c, "uniqueid", func(rank int) string {
		if rank == 0 {
			return "uniqueid"
		}
		return nothing
	})
	if err != nil {
		return err
	}
	id := answers[c.Ranks[0]].fields["id"]
	_, err = r.members(ctx, c, initStep, func(rank int) string {
		return fmt.Sprintf("init %srank=%d ranks=%d device=%d id=%s", c.word(), rank, len(c.Ranks),
			r.device(c.Ranks[rank]), id)
	})
	if err != nil {
		return err
	}
	if err := r.pollLogs(); err != nil {
		return err
	}
	if r.made == nil {
		r.made = map[string]*madeComm{}
	}
	r.made[c.Name] = &madeComm{Comm: c, logs: r.newest(c)}
	return nil
}

// word says in a command that it is for c.
func (c Comm) word() string {
	if c.Name == "" {
		return ""
	}
	return "comm=" + c.Name + " "
}

// newest returns what the logs say of the communicator c, which was the last that was made.
func (r *Ranks) newest(c Comm) []*nccllog.Comm {
	logs := make([]*nccllog.Comm, len(c.Ranks))
	for rank, process := range c.Ranks {
		logs[rank] = r.logs[process].Comm()
	}
	return logs
}

// Topology describes a communicator of InitComm.
func (r *Ranks) Topology(name string) (*nccllog.Topology, error) {
	made := r.made[name]
	if made == nil {
		return nil, fmt.Errorf("there is no communicator %q", name)
	}
	if r.logs[0].path == "" {
		return nil, errNoLog
	}
	return nccllog.Combine(made.logs)
}

// CommID is the number that NCCL logs for a communicator of InitComm; "" if it is not known.
func (r *Ranks) CommID(name string) string {
	if made := r.made[name]; made != nil && made.logs[0] != nil {
		return made.logs[0].ID
	}
	return ""
}

// DecideOn returns the calls with what NCCL decides on each of them on a communicator, its topology, and the NICs of
// its connections. No call is run; DecidesOnly says whether the ranks can do that.
func (r *Ranks) DecideOn(ctx context.Context, name string, calls []Case) ([]Case, error) {
	topology, err := r.Topology(name)
	if err != nil {
		return nil, err
	}
	made := r.made[name]
	for rank, process := range made.Ranks {
		r.logs[process].Select(made.logs[rank])
	}
	out := slices.Clone(calls)
	for i := range out {
		if out[i].Decision, err = r.decideOn(ctx, made, out[i]); err != nil {
			return nil, err
		}
	}
	nics := nccllog.NICsOf(made.logs)
	for i := range out {
		out[i].NCCL, out[i].Topology, out[i].NICs = r.version(), topology, nics
	}
	return out, nil
}

// Connections counts the connections of all communicators so far, see [nccllog.Transports].
func (r *Ranks) Connections() map[string]int {
	var all []*nccllog.Comm
	for _, l := range r.logs {
		all = append(all, l.Log().Comms...)
		all = append(all, l.unnamed)
	}
	return nccllog.Transports(all)
}

// Forget says that from now on several communicators are in use at once: what NCCL logs without their names belongs to
// none of them.
func (r *Ranks) Forget() {
	for _, l := range r.logs {
		if l.unnamed == nil {
			l.unnamed = &nccllog.Comm{}
		}
		l.Select(l.unnamed)
	}
}

// decideOn makes NCCL decide on a call. nil is no decision, as for send and receive.
func (r *Ranks) decideOn(ctx context.Context, made *madeComm, c Case) (*nccllog.Decision, error) {
	first := r.logs[made.Ranks[0]] // only rank 0 prints decisions
	if err := r.pollLogs(); err != nil {
		return nil, err
	}
	first.TakeDecisions()
	if err := r.askDecision(ctx, made, c, false); err != nil {
		return nil, err
	}
	return mostFrequent(first.TakeDecisions()), nil
}

// askDecision makes NCCL decide on a call; with more, together with the next one.
func (r *Ranks) askDecision(ctx context.Context, made *madeComm, c Case, more bool) error {
	command := fmt.Sprintf("decide %s%s more=%d", made.word(), c.words(), map[bool]int{true: 1}[more])
	if _, err := r.members(ctx, made.Comm, "decide", func(int) string { return command }); err != nil {
		return err
	}
	return r.pollLogs()
}

// DecideGroup returns what NCCL decides on the calls of a group on a communicator, in the order of its log. As with
// DecideOn, no call is run.
func (r *Ranks) DecideGroup(ctx context.Context, name string, calls []Case) ([]nccllog.Decision, error) {
	made := r.made[name]
	if made == nil {
		return nil, fmt.Errorf("there is no communicator %q", name)
	}
	for rank, process := range made.Ranks {
		r.logs[process].Select(made.logs[rank])
	}
	if err := r.pollLogs(); err != nil {
		return nil, err
	}
	first := r.logs[made.Ranks[0]] // only rank 0 prints decisions
	first.TakeDecisions()
	for i, c := range calls {
		if err := r.askDecision(ctx, made, c, i+1 < len(calls)); err != nil {
			return nil, err
		}
	}
	return first.TakeDecisions(), nil
}
