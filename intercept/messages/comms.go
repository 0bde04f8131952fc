// SPDX-License-Identifier: Apache-2.0

package messages

// The kernels of the software CUDA do not know NCCL's hash of a communicator: each process has its own
// number for it. The ranks of one communicator are found by their messages. Ranks that exchange none,
// because they are on one node, are found by their places in it.

// comm is one communicator, or a part of it.
type comm struct {
	size  int          // its ranks
	known map[int]bool // ranks in the communicator
	order uint32       // number in the processes; all have made it as the same one
	mixed bool         // not all have
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
			c = &comm{size: x.Ranks, known: map[int]bool{}, order: uint32(x.Comm)}
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
		all, sum := map[int]bool{}, 0
		for _, root := range roots {
			sum += len(comms[root].known)
			for rank := range comms[root].known {
				all[rank] = true
			}
		}
		if len(all) != like.size || sum != like.size {
			continue
		}
		for _, root := range roots[1:] {
			s.join(root, roots[0])
		}
	}
}
