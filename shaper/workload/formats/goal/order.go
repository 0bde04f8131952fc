// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// message is what a send and its receive have in common.
type message struct {
	from, to int
	tag      string
}

// orderReceives lets each rank receive from another in the order in which that one sends, as far as requirements allow:
// NCCL has no tags and matches in order. The priorities of the receives are exchanged.
func (p *program) orderReceives() {
	sent := map[message][]int{} // positions among the sends of the pair
	count := map[[2]int]int{}
	for r, tasks := range p.ranks {
		for _, t := range tasks {
			if t.kind == workload.Send {
				pair, key := [2]int{r, t.peer}, message{r, t.peer, t.tag}
				sent[key] = append(sent[key], count[pair])
				count[pair]++
			}
		}
	}
	for r, tasks := range p.ranks {
		bySender := map[int][]int{}
		for i, t := range tasks {
			if t.kind == workload.Recv {
				bySender[t.peer] = append(bySender[t.peer], i)
			}
		}
		for from, receives := range bySender {
			last := count[[2]int{from, r}] // a receive without a send comes after the others
			positions := make(map[int]int, len(receives))
			for _, i := range receives {
				key := message{from, r, tasks[i].tag}
				positions[i] = last
				if all := sent[key]; len(all) > 0 {
					positions[i], sent[key] = all[0], all[1:]
				}
			}
			ordered := slices.Clone(receives)
			slices.SortStableFunc(ordered, func(a, b int) int { return positions[a] - positions[b] })
			for k, i := range ordered {
				tasks[i].priority = receives[k]
			}
		}
	}
}

// maxSeparate is the number of communicators up to which each tag of two ranks has one of its own. A file may have a
// tag for each message.
const maxSeparate = 1024

// eachMessage calls f with each send and receive, and its sender and receiver.
func (p *program) eachMessage(f func(pair [2]int, t *task)) {
	for r, tasks := range p.ranks {
		for i := range tasks {
			switch t := &tasks[i]; t.kind {
			case workload.Send:
				f([2]int{r, t.peer}, t)
			case workload.Recv:
				f([2]int{t.peer, r}, t)
			}
		}
	}
}

// joinAnyTags gives all messages of two ranks one tag if a receive between them takes any: LogGOPSim gives it the
// first message that no receive has taken. It returns the number of such receives.
func (p *program) joinAnyTags() (receives int) {
	pairs := map[[2]int]bool{}
	p.eachMessage(func(pair [2]int, t *task) {
		if t.kind == workload.Recv && (t.tag == "-1" || t.tag == "4294967295") {
			pairs[pair] = true
			receives++
		}
	})
	if receives > 0 {
		p.eachMessage(func(pair [2]int, t *task) {
			if pairs[pair] {
				t.tag = ""
			}
		})
	}
	return receives
}

// separateTags gives the tags of two ranks communicators of their own, if that makes few communicators: messages of
// different tags do not wait for each other then, as in GOAL. It reports whether all tags are apart.
func (p *program) separateTags() bool {
	tags := map[[2]int]map[string]bool{} // by sender and receiver
	comms := 0
	p.eachMessage(func(pair [2]int, t *task) {
		if tags[pair] == nil {
			tags[pair] = map[string]bool{}
		}
		if !tags[pair][t.tag] {
			tags[pair][t.tag] = true
			comms++
		}
	})
	if comms == len(tags) {
		return true
	}
	if comms > maxSeparate {
		return false
	}
	p.eachMessage(func(pair [2]int, t *task) {
		if len(tags[pair]) > 1 {
			t.suffix = "#" + t.tag
		}
	})
	return true
}
