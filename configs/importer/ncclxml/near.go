// SPDX-License-Identifier: Apache-2.0

package ncclxml

import (
	"cmp"
	"slices"
)

// Kinds of paths between a GPU and a NIC, as NCCL has them: over PCI bridges only, over a CPU, over several CPUs.
const (
	overPCI = iota
	overCPU
	overCPUs
)

// distance is how far a NIC is from a GPU: the kind of path, then the number of bridges.
func distance(a, b *place) (kind, hops int) {
	shared := 0
	for shared < min(len(a.bridges), len(b.bridges)) && a.bridges[shared] == b.bridges[shared] {
		shared++
	}
	hops = len(a.bridges) + len(b.bridges) - 2*shared
	switch {
	case shared > 0:
		return overPCI, hops
	case a.cpu == b.cpu:
		return overCPU, hops
	}
	return overCPUs, hops
}

// common is the innermost bridge above two devices; nil if there is none.
func common(a, b *place) (found *element) {
	for i := 0; i < min(len(a.bridges), len(b.bridges)) && a.bridges[i] == b.bridges[i]; i++ {
		found = a.bridges[i]
	}
	return found
}

// nearest is the NIC nearest to each GPU and the kind of path to it. GPUs that are equally near to several NICs get
// them in turn, as NCCL gives each GPU of a PCI switch another one.
func (m *machine) nearest() (of, kinds []int) {
	taken := make([]int, len(m.nics))
	for g := range m.gpus {
		best := 0
		for n := range m.nics {
			if closer(m, g, n, best, taken) {
				best = n
			}
		}
		taken[best]++
		kind, _ := distance(&m.gpus[g].place, &m.nics[best].place)
		of, kinds = append(of, best), append(kinds, kind)
	}
	return of, kinds
}

// closer reports whether NIC n is better for GPU g than NIC best: nearer, or as near and nearest to fewer GPUs, or
// with the higher rate.
func closer(m *machine, g, n, best int, taken []int) bool {
	k1, h1 := distance(&m.gpus[g].place, &m.nics[n].place)
	k2, h2 := distance(&m.gpus[g].place, &m.nics[best].place)
	return cmp.Or(cmp.Compare(k1, k2), cmp.Compare(h1, h2), cmp.Compare(m.nics[best].rate, m.nics[n].rate),
		cmp.Compare(taken[n], taken[best])) < 0
}

// order sorts the GPUs and the NICs by their numbers, or by their bus ids if the file has no numbers.
func (m *machine) order() {
	slices.SortStableFunc(m.gpus,
		func(a, b gpu) int { return cmp.Or(cmp.Compare(a.dev, b.dev), byBus(m, a.name, b.name)) })
	slices.SortStableFunc(m.nics,
		func(a, b nic) int { return cmp.Or(cmp.Compare(a.dev, b.dev), byBus(m, a.name, b.name)) })
}

// byBus compares the names of PCI devices. Those of NICs that NCCL numbered keep their order.
func byBus(m *machine, a, b string) int {
	if !m.static {
		return 0
	}
	return cmp.Compare(a, b)
}

// groups are the PCI switches of the NICs: for each NIC the innermost bridge that it shares with a GPU, or else the
// one above it. Numbers are in the order of the NICs.
func (m *machine) groups() (group []int, count int) {
	bridge := make([]*element, len(m.nics))
	for i := range m.nics {
		above := m.nics[i].bridges
		if len(above) == 0 {
			group, count = append(group, count), count+1
			continue
		}
		bridge[i] = above[len(above)-1]
		deepest := -1
		for g := range m.gpus {
			if at := slices.Index(above, common(&m.gpus[g].place, &m.nics[i].place)); at > deepest {
				deepest, bridge[i] = at, above[at]
			}
		}
		if first := slices.Index(bridge[:i], bridge[i]); first >= 0 {
			group = append(group, group[first])
			continue
		}
		group, count = append(group, count), count+1
	}
	return group, count
}
