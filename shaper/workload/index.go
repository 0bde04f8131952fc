// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"iter"
	"slices"
)

// Index finds the communicator of a call and the operations of a rank. It holds for as long as the workload does not
// change, and is safe for concurrent use.
type Index struct {
	Workload *Workload
	// Comms are the communicators. If the head names none, this is [World].
	Comms []Comm
	// Names are the names of the communicators, each once.
	Names []string
	// Programs are what the ranks do, one for all ranks that take the same lines.
	Programs []Program

	all       Ranks
	names     map[string]*family
	programOf []int32 // by rank
}

// family is the communicators with one name.
type family struct {
	number int // in Index.Names
	// places are sorted by rank.
	places []Place
	list   *rankList
}

// Place is where a rank is in a communicator.
type Place struct {
	Rank int32
	Comm int32 // in Index.Comms
	At   int32 // the rank in the communicator
}

// rankList is a list of ranks that lines name.
type rankList struct {
	ranks    Ranks
	called   bool    // by an operation
	programs []int32 // whose ranks are in the list
	// by the name of a communicator: the size of the smallest one that a rank of the list is in
	checked map[string]int32
}

// Place returns where a rank is in the communicator of a name ("" if there is only one), false if it is in none.
func (ix *Index) Place(comm string, rank int) (Place, bool) {
	f, err := ix.family(comm)
	if err != nil {
		return Place{}, false
	}
	return f.place(rank)
}

// CommOf is the communicator of a name ("" if there is only one) in which a rank is, and the rank's place in it; nil if
// it is in none.
func (ix *Index) CommOf(name string, rank int) (c *Comm, at int) {
	place, ok := ix.Place(name, rank)
	if !ok {
		return nil, 0
	}
	return &ix.Comms[place.Comm], int(place.At)
}

func (f *family) place(rank int) (Place, bool) {
	if rank < len(f.places) && int(f.places[rank].Rank) == rank { // of a communicator of all ranks
		return f.places[rank], true
	}
	i, found := slices.BinarySearchFunc(f.places, rank, func(p Place, rank int) int { return int(p.Rank) - rank })
	if !found {
		return Place{}, false
	}
	return f.places[i], true
}

// RanksOf are the ranks that call an operation.
func (ix *Index) RanksOf(o *Op) Ranks {
	if len(o.Ranks) > 0 {
		return o.Ranks
	}
	if o.Kind == Coll || o.Kind == Send || o.Kind == Recv {
		if f, err := ix.family(o.Comm); err == nil {
			return f.list.ranks
		}
	}
	return ix.all
}

// NameOf is the position in Names of the name of a communicator that an operation gives.
func (ix *Index) NameOf(comm string) int {
	f, err := ix.family(comm)
	if err != nil {
		return -1
	}
	return f.number
}

// Program is what a rank does.
func (ix *Index) Program(rank int) *Program { return &ix.Programs[ix.programOf[rank]] }

// OfRank yields the operations of a rank in order, with their positions in Workload.Ops.
func (ix *Index) OfRank(rank int) iter.Seq2[int, *Op] {
	return func(yield func(int, *Op) bool) {
		for _, c := range ix.Program(rank).Calls {
			if !yield(int(c.Op), &ix.Workload.Ops[c.Op]) {
				return
			}
		}
	}
}

// Index checks w, and finds its communicators and programs. An error is a [*LineError].
func (w *Workload) Index() (*Index, error) {
	b := &builder{w: w, byText: map[string]*rankList{}, byPlace: map[placeKey]*rankList{}, sizes: map[string]int{}}
	if err := b.head(); err != nil {
		return nil, &LineError{Line: 1, Err: err}
	}
	lists := make([]*rankList, len(w.Ops))
	for i := range w.Ops {
		l, err := b.op(&w.Ops[i])
		if err != nil {
			return nil, &LineError{Line: Line(i), Err: err}
		}
		lists[i] = l
	}
	b.divide()
	if err := b.programs(lists); err != nil {
		return nil, err
	}
	return b.ix, nil
}

// builder makes an index.
type builder struct {
	w       *Workload
	ix      *Index
	all     *rankList
	lists   []*rankList
	listed  int // the sum of the lengths of lists
	placed  int // the sum of the sizes of the communicators
	byText  map[string]*rankList
	byPlace map[placeKey]*rankList
	sizes   map[string]int // of families, at most MaxListed
	seen    []int32        // by rank: the mark of the last list that had it
	mark    int32
}

// placeKey tells lists apart by where they are in memory: a reader keeps equal ones once.
type placeKey struct {
	first *int
	n     int
}

// head makes the communicators.
func (b *builder) head() error {
	h := &b.w.Head
	if err := h.validate(); err != nil {
		return err
	}
	all := make(Ranks, h.Ranks)
	for i := range all {
		all[i] = i
	}
	b.seen = make([]int32, h.Ranks)
	var err error
	if b.all, err = b.list(all); err != nil {
		return err
	}
	b.ix = &Index{Workload: b.w, Comms: h.Comms, all: all, names: map[string]*family{}}
	if len(h.Comms) == 0 {
		b.ix.Comms = []Comm{{World, all}}
	}
	for _, c := range b.ix.Comms {
		b.sizes[c.Name] = min(b.sizes[c.Name]+len(c.Ranks), MaxListed)
	}
	for i, c := range b.ix.Comms {
		if err := b.comm(i, c); err != nil {
			return fmt.Errorf("communicator %s: %w", c.Name, err)
		}
	}
	return b.families()
}

// comm adds a communicator to the communicators of its name.
func (b *builder) comm(i int, c Comm) error {
	if err := b.distinct(c.Ranks); err != nil {
		return err
	}
	if b.placed += len(c.Ranks); b.placed > MaxListed {
		return fmt.Errorf("the communicators have more than %d ranks together", MaxListed)
	}
	f := b.ix.names[c.Name]
	if f == nil {
		f = &family{number: len(b.ix.Names), places: make([]Place, 0, b.sizes[c.Name])}
		b.ix.names[c.Name] = f
		b.ix.Names = append(b.ix.Names, c.Name)
	}
	for at, rank := range c.Ranks {
		f.places = append(f.places, Place{Rank: int32(rank), Comm: int32(i), At: int32(at)})
	}
	return nil
}

// families sorts the places, and refuses a rank that is in two communicators of one name.
func (b *builder) families() error {
	for _, name := range b.ix.Names {
		f := b.ix.names[name]
		slices.SortFunc(f.places, func(x, y Place) int { return int(x.Rank - y.Rank) })
		ranks := make(Ranks, len(f.places))
		for i, p := range f.places {
			ranks[i] = int(p.Rank)
			if i > 0 && ranks[i-1] == ranks[i] {
				return fmt.Errorf("rank %d is in two communicators with the name %s", p.Rank, name)
			}
		}
		var err error
		if f.list, err = b.list(ranks); err != nil {
			return err
		}
	}
	return nil
}

func (ix *Index) family(name string) (*family, error) {
	if name == "" {
		if len(ix.Names) > 1 {
			return nil, fmt.Errorf("comm is missing: there are %d", len(ix.Names))
		}
		name = ix.Names[0]
	}
	if f, ok := ix.names[name]; ok {
		return f, nil
	}
	return nil, unknown("communicator", name, ix.Names)
}

// list returns the list with these ranks. Equal lists are one.
func (b *builder) list(ranks Ranks) (*rankList, error) {
	key := placeKey{&ranks[0], len(ranks)}
	if l, ok := b.byPlace[key]; ok {
		return l, nil
	}
	text := ranks.String()
	if l, ok := b.byText[text]; ok {
		b.byPlace[key] = l // or each operation of the list would write its text
		return l, nil
	}
	l := &rankList{ranks: ranks, checked: map[string]int32{}}
	b.lists = append(b.lists, l)
	if b.listed += len(ranks); b.listed > MaxListed {
		return nil, fmt.Errorf("the different lists of ranks have more than %d ranks together", MaxListed)
	}
	b.byText[text], b.byPlace[key] = l, l
	return l, b.distinct(ranks)
}

// distinct refuses ranks that the workload does not have, and a rank that is there twice.
func (b *builder) distinct(ranks Ranks) error {
	b.mark++
	for _, r := range ranks {
		if r < 0 || r >= b.w.Head.Ranks {
			return fmt.Errorf("rank %d: the workload has ranks 0 to %d", r, b.w.Head.Ranks-1)
		}
		if b.seen[r] == b.mark {
			return fmt.Errorf("rank %d is there twice", r)
		}
		b.seen[r] = b.mark
	}
	return nil
}

// op checks an operation, and returns the list of its ranks.
func (b *builder) op(o *Op) (*rankList, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l, err := b.ranksOf(o)
	if err != nil {
		return nil, err
	}
	l.called = true
	for part := range o.Parts() {
		if err := b.part(l, part); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// ranksOf is the list of the ranks that call o.
func (b *builder) ranksOf(o *Op) (*rankList, error) {
	if len(o.Ranks) > 0 {
		return b.list(o.Ranks)
	}
	if o.Kind == Coll || o.Kind == Send || o.Kind == Recv {
		f, err := b.ix.family(o.Comm)
		if err != nil {
			return nil, err
		}
		return f.list, nil
	}
	return b.all, nil
}

// part checks the communicator of a call, and its root or peer.
func (b *builder) part(l *rankList, o *Op) error {
	size, ok := l.checked[o.Comm]
	if !ok {
		f, err := b.ix.family(o.Comm)
		if err != nil {
			return err
		}
		size = MaxRanks
		for _, r := range l.ranks {
			p, ok := f.place(r)
			if !ok {
				return fmt.Errorf("rank %d is not in communicator %s", r, b.ix.Names[f.number])
			}
			size = min(size, int32(len(b.ix.Comms[p.Comm].Ranks)))
		}
		l.checked[o.Comm] = size
	}
	n := int(size)
	switch {
	case o.Kind == Coll && (o.Root < 0 || o.Root >= n):
		return fmt.Errorf("root %d: the communicator has ranks 0 to %d", o.Root, n-1)
	case o.Kind != Coll && o.Relative && (o.Peer <= -n || o.Peer >= n):
		return fmt.Errorf("peer %+d: the communicator has %d ranks", o.Peer, n)
	case o.Kind != Coll && !o.Relative && (o.Peer < 0 || o.Peer >= n):
		return fmt.Errorf("peer %d: the communicator has ranks 0 to %d", o.Peer, n-1)
	}
	return nil
}

// divide gives the ranks programs: two ranks have one if they are in the same lists of operations.
func (b *builder) divide() {
	of := make([]int32, b.w.Head.Ranks)
	n := int32(1)
	for _, l := range b.lists {
		if !l.called {
			continue
		}
		renamed := map[int32]int32{}
		for _, r := range l.ranks {
			if _, ok := renamed[of[r]]; !ok {
				renamed[of[r]] = n
				n++
			}
			of[r] = renamed[of[r]]
		}
	}
	// Number them in the order of their first ranks.
	number := map[int32]int32{}
	for r, name := range of {
		k, ok := number[name]
		if !ok {
			k = int32(len(b.ix.Programs))
			number[name] = k
			b.ix.Programs = append(b.ix.Programs, Program{})
		}
		b.ix.Programs[k].Ranks = append(b.ix.Programs[k].Ranks, r)
		of[r] = k
	}
	b.ix.programOf = of
	for _, l := range b.lists {
		for _, r := range l.ranks {
			l.programs = append(l.programs, of[r])
		}
		slices.Sort(l.programs)
		l.programs = slices.Clip(slices.Compact(l.programs))
	}
}
