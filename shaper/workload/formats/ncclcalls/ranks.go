// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// gpu is a GPU of a process.
type gpu struct{ process, device string }

// assign gives each member its caller. A process may have several GPUs: the INIT lines say of which one a communicator
// is. Without them, the current device of the thread does, unless there are as many addresses of communicators of all
// ranks as ranks: then each is one.
func (l *log) assign() {
	for _, m := range l.members {
		if len(m.calls) > 0 {
			l.ranks = max(l.ranks, m.size)
		}
	}
	known := map[gpu]*caller{}
	add := func(g gpu) *caller {
		c := known[g]
		if c == nil {
			c = &caller{gpu: g, number: len(known), rank: -1}
			known[g] = c
		}
		return c
	}
	byInit := map[string][]*caller{} // by process
	for _, m := range l.members {
		if m.device == "" {
			continue
		}
		m.caller = add(gpu{m.process, m.device})
		if !slices.Contains(byInit[m.process], m.caller) {
			byInit[m.process] = append(byInit[m.process], m.caller)
		}
	}
	byAddress := l.oneAddressPerRank()
	for i, m := range l.members {
		switch {
		case m.caller != nil:
		case byAddress:
			m.caller = add(gpu{m.process, fmt.Sprintf("address %d", i)})
		case len(byInit[m.process]) == 1:
			m.caller = byInit[m.process][0]
		default:
			m.caller = add(gpu{m.process, m.current})
		}
	}
}

// oneAddressPerRank says whether no INIT line was read, all communicators are of the job's size, and each belongs to
// another rank: some thread has several, and there are as many as ranks, or fewer with the same calls in each thread.
func (l *log) oneAddressPerRank() bool {
	threads := map[gpu]*member{}
	alike := true
	for _, m := range l.members {
		if m.device != "" || m.size != l.ranks {
			return false
		}
		thread := gpu{m.process, m.current}
		first := threads[thread]
		if first == nil {
			threads[thread] = m
			continue
		}
		alike = alike &&
			slices.EqualFunc(first.calls, m.calls,
				func(a, b call) bool { return a.op == b.op && a.opCount == b.opCount })
	}
	if len(threads) == len(l.members) || len(l.members) > l.ranks {
		return false
	}
	if len(l.members) < l.ranks {
		l.byCalls = alike
		return alike
	}
	return true
}

// place gives each caller its rank: that in the largest communicator of all processes.
func (l *log) place(file string, o input.Options) error {
	l.assign()
	for _, m := range l.members {
		c := m.caller
		if len(m.calls) > 0 && !slices.Contains(l.callers, c) {
			l.callers = append(l.callers, c)
		}
		if m.size == l.ranks && m.rank >= 0 {
			c.rank = m.rank
		}
	}
	slices.SortFunc(l.callers, func(a, b *caller) int { return cmp.Compare(a.number, b.number) })
	if len(l.callers) == 1 && l.ranks > 1 {
		if !o.OneForAll {
			return fmt.Errorf("%s: the log is of one of %d ranks: give the logs of all", file, l.ranks)
		}
		l.callers[0].rank = max(l.callers[0].rank, 0)
		return nil
	}
	if l.ranks == 1 && len(l.callers) > 1 {
		return fmt.Errorf(
			"%s: %d processes or GPUs have communicators of one rank and no other, so each is a job of its own: give "+
				"the log of one",
			file, len(l.callers))
	}
	if len(l.callers) > l.ranks {
		return fmt.Errorf(
			"%s: a communicator has %d ranks and the log has calls of %d: give the log of one job, and if several "+
				"wrote to it, cut it between them",
			file, l.ranks, len(l.callers))
	}
	if len(l.callers) < l.ranks && (!o.OneForAll || !l.sameForAll()) {
		return fmt.Errorf(
			"%s: a communicator has %d ranks and the log has calls of %d: give the logs of all ranks, or the log of one "+
				"alone, or the whole log if it was cut",
			file, l.ranks, len(l.callers))
	}
	l.guess()
	slices.SortFunc(l.callers, func(a, b *caller) int { return cmp.Compare(a.rank, b.rank) })
	for i, c := range l.callers[1:] {
		if c.rank == l.callers[i].rank {
			return fmt.Errorf("%s: two processes are rank %d of a communicator of %d: give the log of one job", file,
				c.rank, l.ranks)
		}
	}
	return nil
}

// sameForAll says whether ranks that were not recorded can have done what the others did: all calls are collectives of
// all ranks.
func (l *log) sameForAll() bool {
	for _, m := range l.members {
		if len(m.calls) > 0 && m.size != l.ranks {
			return false
		}
		for i := range m.calls {
			if m.calls[i].op.Kind != workload.Coll {
				return false
			}
		}
	}
	return true
}

// guess gives the callers without a line of INIT the ranks that the others do not have, in the order of the log. If
// there is no such line at all, the numbers of the GPUs and the peers of the calls may say more.
func (l *log) guess() {
	taken := map[int]bool{}
	for _, c := range l.callers {
		if c.rank < 0 {
			l.guessed++
		}
		taken[c.rank] = true
	}
	if l.guessed == l.ranks && (l.guessByPeers() || l.guessByDevices()) {
		return
	}
	next := 0
	for _, c := range l.callers {
		if c.rank >= 0 {
			continue
		}
		for taken[next] {
			next++
		}
		c.rank = next
		next++
	}
}

// guessByPeers gives two callers their ranks if one has only messages to and from one rank, which is the other caller.
func (l *log) guessByPeers() bool {
	if l.ranks != 2 {
		return false
	}
	first, second := l.onlyPeer(l.callers[0]), l.onlyPeer(l.callers[1])
	if first < 0 {
		first = 1 - second
	}
	if first < 0 || first > 1 || second == first {
		return false
	}
	l.callers[0].rank, l.callers[1].rank = 1-first, first
	l.guessedBy = "so it is the one that its messages do not go to"
	return true
}

// onlyPeer is the one rank to which and from which a caller has messages, or -1.
func (l *log) onlyPeer(of *caller) int {
	peer := -1
	for _, m := range l.members {
		if m.caller != of {
			continue
		}
		for i := range m.calls {
			switch o := m.calls[i].op; {
			case o.Kind == workload.Coll || o.Peer == peer:
			case peer >= 0:
				return -1
			default:
				peer = o.Peer
			}
		}
	}
	return peer
}

// guessByDevices gives each caller the number of its GPU, as launchers do it on one host.
func (l *log) guessByDevices() bool {
	ranks := make([]int, 0, len(l.callers))
	host, _, _ := strings.Cut(l.callers[0].process, ":")
	for _, c := range l.callers {
		device, err := strconv.Atoi(c.device)
		if err != nil || device >= l.ranks || slices.Contains(ranks, device) ||
			!strings.HasPrefix(c.process, host+":") {
			return false
		}
		ranks = append(ranks, device)
	}
	for i, c := range l.callers {
		c.rank = ranks[i]
	}
	l.guessedBy = "so it is the number of its GPU"
	return true
}

// communicator is a communicator with its known ranks.
type communicator struct {
	id      string
	members []*member
}

// communicators groups the members by their communicators, in the order of their first calls. A member without calls
// counts if others of its communicator have some.
func (l *log) communicators() []*communicator {
	byID := map[string]*communicator{}
	var order []*communicator
	ids := l.ids()
	for _, withCalls := range []bool{true, false} {
		for _, c := range l.callers {
			for _, m := range l.members {
				if m.caller != c || (len(m.calls) > 0) != withCalls {
					continue
				}
				known := byID[ids[m]]
				switch {
				case known == nil && !withCalls:
					continue
				case known == nil:
					known = &communicator{id: ids[m]}
					byID[ids[m]] = known
					order = append(order, known)
				}
				known.members = append(known.members, m)
			}
		}
	}
	return order
}

// ids gives each member the id of its communicator: NCCL's, else its size. The second one of a rank with the same id
// gets a number: NCCL 2.18 to 2.25 gives all parts with one color the same id, and NCCL up to 2.17 gives none. A
// communicator of one rank belongs to its caller, whatever the log says.
func (l *log) ids() map[*member]string {
	ids := map[*member]string{}
	count := map[string]map[*caller]int{}
	for _, m := range l.members {
		if len(m.calls) == 0 && m.id == "" || m.caller == nil {
			continue
		}
		id := m.id
		if id == "" || m.size == l.ranks && l.guessed > 0 {
			id = fmt.Sprintf("of %d ranks", m.size)
		}
		if m.size == 1 && l.ranks > 1 {
			id = fmt.Sprintf("of caller %d alone", m.caller.number)
		}
		if count[id] == nil {
			count[id] = map[*caller]int{}
		}
		count[id][m.caller]++
		ids[m] = id
		if n := count[id][m.caller]; n > 1 {
			ids[m] = fmt.Sprintf("%s#%d", id, n)
		}
	}
	for m, id := range ids { // without ids, only the order tells, and only if all ranks have as many
		if base, _, numbered := strings.Cut(id, "#"); numbered && base == fmt.Sprintf("of %d ranks", m.size) &&
			!l.alike(count[base]) {
			ids[m] = base
		}
	}
	return ids
}

// alike says whether all callers have the same count.
func (l *log) alike(count map[*caller]int) bool {
	return !slices.ContainsFunc(l.callers, func(c *caller) bool { return count[c] != count[l.callers[0]] })
}

// name names the communicators, finds their ranks, and pairs their calls.
func (l *log) name(file string, comms *perrank.Registry) (map[*member]string, error) {
	names := map[*member]string{}
	for n, c := range l.communicators() {
		ranks, err := l.ranksOf(file, c)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("comm%d", n)
		if len(ranks) == 1 && len(l.callers) == 1 && l.ranks > 1 { // the callers that were not recorded have one too
			if name, err = comms.AddAlike(name, ranks, l.ranks); err != nil {
				return nil, err
			}
		} else {
			name = comms.Add(name, ranks)
		}
		for _, m := range c.members {
			names[m] = name
		}
		if len(l.callers) > 1 && len(c.members) == min(len(ranks), len(l.callers)) {
			l.pair(name, c.members)
		}
	}
	return names, nil
}

// ranksOf are the ranks of a communicator in the job.
func (l *log) ranksOf(file string, c *communicator) (workload.Ranks, error) {
	size := c.members[0].size
	switch size {
	case l.ranks:
		if err := l.limit.List(size); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return perrank.All(l.ranks), nil
	case 1:
		return workload.Ranks{c.members[0].caller.rank}, nil
	}
	if size != len(c.members) || c.members[0].id == "" {
		return nil, fmt.Errorf("%s: which ranks are in a communicator of %d is not known: record all ranks, with "+
			"NCCL_DEBUG_SUBSYS=INIT,COLL (NCCL since 2.18 says it)", file, size)
	}
	ranks := make(workload.Ranks, size)
	for _, m := range c.members {
		if m.rank < 0 || m.rank >= size {
			return nil, fmt.Errorf("%s: communicator %s of %d ranks has a rank %d", file, c.id, size, m.rank)
		}
		ranks[m.rank] = m.caller.rank
	}
	return ranks, nil
}
