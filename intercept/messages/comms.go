// SPDX-License-Identifier: Apache-2.0

package messages

import "slices"

// The kernels of the software CUDA do not know NCCL's hash of a communicator: each process has its own
// number for it. The ranks of one communicator are found by their messages. Ranks that exchange none,
// because they are on one node, are found by their places in it. If a node has several communicators of one size, that
// does not say which ranks are in which: then they are taken in the order of ranks.

// comm is one communicator, or a part of it.
type comm struct {
	size  int          // its ranks
	known map[int]bool // ranks in the communicator
	order uint32       // number in the processes; all have made it as the same one
	mixed bool         // not all have
	owner int          // a rank of the job in it
	node  int          // of that rank
}

// joinComms gives all ranks of a communicator the same number.
func (t *Trace) joinComms() {
	s := sets{}
	place := map[uint64]int{}
	var numbers []uint64
	for i := range t.Tasks {
		if x := &t.Tasks[i]; x.local {
			if _, ok := place[x.Comm]; !ok {
				place[x.Comm] = len(numbers)
				numbers = append(numbers, x.Comm)
				s.add()
			}
		}
	}
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.SendTask >= 0 && m.ReceiveTask >= 0 && t.Tasks[m.SendTask].local && t.Tasks[m.ReceiveTask].local {
			s.join(place[t.Tasks[m.SendTask].Comm], place[t.Tasks[m.ReceiveTask].Comm])
		}
	}
	t.joinParts(s, place)
	for i := range t.Tasks {
		if x := &t.Tasks[i]; x.local {
			x.Comm = numbers[s.root(place[x.Comm])]
		}
	}
}

// joinParts joins the parts that are one communicator for sure: together they have each rank once, and
// no other parts of this size have the same number in their processes.
func (t *Trace) joinParts(s sets, place map[uint64]int) {
	comms := map[int]*comm{}
	for i := range t.Tasks {
		x := &t.Tasks[i]
		if !x.local {
			continue
		}
		root := s.root(place[x.Comm])
		c := comms[root]
		if c == nil {
			c = &comm{size: x.Ranks, known: map[int]bool{}, order: uint32(x.Comm), owner: x.Owner,
				node: t.Nodes[[2]int{x.Job, x.Owner}]}
			comms[root] = c
		}
		c.known[x.Rank] = true
		c.mixed = c.mixed || c.order != uint32(x.Comm)
	}
	type likeness struct {
		size  int
		order uint32
	}
	alike := map[likeness][]int{}
	for root, c := range comms {
		if !c.mixed && len(c.known) < c.size {
			alike[likeness{c.size, c.order}] = append(alike[likeness{c.size, c.order}], root)
		}
	}
	for like, roots := range alike {
		if isOneComm(like.size, roots, comms) {
			for _, root := range roots[1:] {
				s.join(root, roots[0])
			}
			continue
		}
		t.joinWithinNodes(s, like.size, roots, comms)
	}
}

// isOneComm says whether parts have each rank of a communicator once.
func isOneComm(size int, roots []int, comms map[int]*comm) bool {
	all, sum := map[int]bool{}, 0
	for _, root := range roots {
		sum += len(comms[root].known)
		for rank := range comms[root].known {
			all[rank] = true
		}
	}
	return len(all) == size && sum == size
}

// joinWithinNodes joins single ranks of communicators that are on one node, if these are complete. Of several
// communicators, the first one has the lowest rank of the job at each of its places, and so on.
func (t *Trace) joinWithinNodes(s sets, size int, roots []int, comms map[int]*comm) {
	type place struct{ node, rank int }
	at := map[place][]int{}
	nodes := map[int]bool{}
	for _, root := range roots {
		c := comms[root]
		for rank := range c.known {
			if len(c.known) == 1 {
				at[place{c.node, rank}] = append(at[place{c.node, rank}], root)
				nodes[c.node] = true
			}
		}
	}
	for node := range nodes {
		n := len(at[place{node, 0}])
		for rank := range size {
			list := at[place{node, rank}]
			if len(list) != n {
				n = 0
			}
			slices.SortFunc(list, func(a, b int) int { return comms[a].owner - comms[b].owner })
		}
		for i := range n {
			for rank := 1; rank < size; rank++ {
				s.join(at[place{node, rank}][i], at[place{node, 0}][i])
			}
		}
		if n > 1 {
			t.Supposed += n
		}
	}
}
