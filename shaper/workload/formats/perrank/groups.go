// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Alike returns the communicators of all ranks of a job that are like the communicator of one rank: its ranks, shifted.
// A group of size n whose ranks are s apart repeats in blocks of n·s ranks, as the groups of tensor, data and pipeline
// parallelism do.
func Alike(name string, group workload.Ranks, world int) ([]workload.Comm, error) {
	if len(group) == world {
		return []workload.Comm{{Name: name, Ranks: group}}, nil
	}
	stride := 1
	if len(group) > 1 {
		stride = group[1] - group[0]
	}
	block := stride * len(group)
	for i, r := range group {
		if stride < 1 || r != group[0]+i*stride {
			return nil, fmt.Errorf(
				"the ranks %s of group %s are not evenly spaced, so the groups of the other ranks are not known",
				group, name)
		}
	}
	if world%block != 0 || group[0]%block >= stride {
		return nil, fmt.Errorf("groups like %s, of ranks %s, do not divide %d ranks", name, group, world)
	}
	return Grid(name, len(group), stride, world), nil
}

// Grid divides the ranks 0 to world-1 into groups of n ranks that are stride apart. n·stride divides world.
func Grid(name string, n, stride, world int) []workload.Comm {
	out, all := make([]workload.Comm, 0, world/n), make(workload.Ranks, 0, world)
	for base := 0; base < world; base += n * stride {
		for first := base; first < base+stride; first++ {
			for i := range n {
				all = append(all, first+i*stride)
			}
			out = append(out, workload.Comm{Name: name, Ranks: slices.Clip(all[len(all)-n:])})
		}
	}
	return out
}

// Registry collects communicators.
type Registry struct {
	Comms []workload.Comm
	names map[string]string   // by the wanted name and the ranks
	used  map[string]*members // of the communicators of a name
	alike map[string]string   // names of families, by the wanted name and the ranks of one
}

// members are the ranks in the communicators of a name. Most names have one communicator, for which the list is enough.
type members struct {
	first workload.Ranks
	all   map[int]bool // nil while there is no other
}

// disjoint tells whether none of the ranks is a member. The next communicator of the name needs the set of all.
func (m *members) disjoint(ranks workload.Ranks) bool {
	if m.all == nil {
		m.all = make(map[int]bool, len(m.first))
		m.add(m.first)
	}
	return !slices.ContainsFunc(ranks, func(r int) bool { return m.all[r] })
}

func (m *members) add(ranks workload.Ranks) {
	for _, r := range ranks {
		m.all[r] = true
	}
}

// Add adds a communicator unless an equal one is there, and returns its name. If another one of the name shares ranks
// with it, the name gets a number.
func (g *Registry) Add(name string, ranks workload.Ranks) string {
	if g.names == nil {
		g.names, g.used, g.alike = map[string]string{}, map[string]*members{}, map[string]string{}
	}
	key := name + " " + ranks.String()
	if known, ok := g.names[key]; ok {
		return known
	}
	free := name
	for n := 2; g.used[free] != nil && !g.used[free].disjoint(ranks); n++ {
		free = fmt.Sprintf("%s#%d", name, n)
	}
	if known := g.used[free]; known != nil {
		known.add(ranks)
	} else {
		g.used[free] = &members{first: ranks}
	}
	g.names[key] = free
	g.Comms = append(g.Comms, workload.Comm{Name: free, Ranks: ranks})
	return free
}

// AddAlike adds the communicators of all ranks that are like the communicator of one, as [Alike] finds them, and
// returns its name.
func (g *Registry) AddAlike(name string, ranks workload.Ranks, world int) (string, error) {
	key := name + " " + ranks.String()
	if known, ok := g.alike[key]; ok {
		return known, nil
	}
	all, err := Alike(name, ranks, world)
	if err != nil {
		return "", err
	}
	own := ""
	for _, c := range all {
		added := g.Add(name, c.Ranks)
		if slices.Equal(c.Ranks, ranks) {
			own = added
		}
	}
	g.alike[key] = own
	return own, nil
}

// InARow are the ranks of the group of n ranks in a row in which a rank is, if groups of them divide the world; else
// nil.
func InARow(rank, n, world int) workload.Ranks {
	if n < 1 || world%n != 0 {
		return nil
	}
	return All(world)[rank/n*n:][:n]
}

// All is the list of the ranks 0 to n-1.
func All(n int) workload.Ranks {
	out := make(workload.Ranks, n)
	for r := range out {
		out[r] = r
	}
	return out
}
