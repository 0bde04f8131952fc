// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Dump is what the flight recorder of one rank kept.
type Dump struct {
	File    string
	Rank    int    // -1 if neither the name of the file nor the calls say it
	Version string // of the format
	Library string // version of NCCL, or of what took its place; "" if the dump does not say
	// Groups are the process groups by name, as the dump lists them.
	Groups map[string]GroupConfig
	// Unread is the number of entries that were not understood.
	Unread int
	// Unnumbered says that the dump does not number its calls, as PyTorch 2.2 writes it. At least BeginsLate calls
	// were overwritten.
	Unnumbered bool
	// entries are the calls, in blocks, so that a long list is not copied when it grows.
	entries [][]Entry
}

// block is the number of entries of a block.
const block = 4096

// Len is the number of calls.
func (d *Dump) Len() int {
	if len(d.entries) == 0 {
		return 0
	}
	last := len(d.entries) - 1
	return last*block + len(d.entries[last])
}

// At is a call, in the order of the recorder.
func (d *Dump) At(i int) *Entry { return &d.entries[i/block][i%block] }

func (d *Dump) add(e Entry) {
	if d.Len()%block == 0 {
		d.entries = append(d.entries, make([]Entry, 0, min(block, 64<<min(len(d.entries), 6))))
	}
	last := len(d.entries) - 1
	d.entries[last] = append(d.entries[last], e)
}

// GroupConfig is a process group as a dump lists it.
type GroupConfig struct {
	Desc  string
	Ranks workload.Ranks
}

// State is how far a call was.
type State uint8

// The states, as the recorder names them. Only where a backend reports it does a call become started and completed:
// calls of gloo stay scheduled.
const (
	Scheduled State = iota
	Started
	Completed
)

// String is the recorder's name of the state.
func (s State) String() string { return [...]string{"scheduled", "started", "completed"}[s] }

// Entry is a call of a process group.
type Entry struct {
	Record  int64 // the number of the call in the recorder of its rank, from 0
	Created int64 // when the host made the call, in ns since 1970
	// Coll and P2P number the collectives, and the launches of sends and receives, of the group. The calls of a
	// coalesced group have the same number.
	Coll, P2P uint32
	Group     *GroupName
	Func      *Function
	In, Out   *Tensors
	Where     *string // the line of the program that made the call; nil if not known
	State     State
	// nobody waits for the call any more: it has ended, has failed, or its backend does not report the end
	Retired bool
	IsP2P   bool
}

// GroupName names a process group in a dump. The keys are the keys of `ddlemu pending --json`.
type GroupName struct {
	Name string `json:"group"`
	Desc string `json:"description"`
}

// String is the name with the description of the program.
func (g *GroupName) String() string {
	if g.Desc == "" || g.Desc == "undefined" {
		return g.Name
	}
	return g.Name + " (" + g.Desc + ")"
}

// Function is what was called: nccl:all_reduce, or gloo:send 0->1.
type Function struct {
	Library string // such as nccl
	Name    string // such as all_reduce
	// From and To are ranks of the group, for sends and receives; -1 if not known.
	From, To int
}

// P2P tells whether the function is a send or a receive.
func (f *Function) P2P() bool { return f.Name == "send" || f.Name == "recv" }

// String is the name, for sends and receives with the ranks of the group.
func (f *Function) String() string {
	switch {
	case f.Name == "send":
		return fmt.Sprintf("send %s->%s", peer(f.From), peer(f.To))
	case f.Name == "recv":
		return fmt.Sprintf("recv %s<-%s", peer(f.To), peer(f.From))
	}
	return f.Name
}

func peer(rank int) string {
	if rank < 0 {
		return "?"
	}
	return strconv.Itoa(rank)
}

// parseFunction reads a profiling name such as "nccl:recv 0<-1".
func parseFunction(text string) *Function {
	f := &Function{From: -1, To: -1}
	name, meta, _ := strings.Cut(text, " ")
	if at := strings.LastIndexByte(name, ':'); at >= 0 {
		f.Library, name = name[:at], name[at+1:]
	}
	f.Name = name
	from, to := &f.From, &f.To
	a, b, found := strings.Cut(meta, "->")
	if !found {
		a, b, found = strings.Cut(meta, "<-")
		from, to = to, from
	}
	if found {
		*from, *to = rankOr(a), rankOr(b)
	}
	return f
}

func rankOr(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n >= workload.MaxRanks {
		return -1
	}
	return n
}

// Tensors are the inputs or the outputs of a call.
type Tensors struct {
	Sizes [][]int64
	Types []string
}

// Elements is the number of elements of all tensors.
func (t *Tensors) Elements() int64 {
	sum := int64(0)
	for i := range t.Sizes {
		sum += t.ElementsOf(i)
	}
	return sum
}

// ElementsOf is the number of elements of one tensor. A product that is too large is the largest number.
func (t *Tensors) ElementsOf(i int) int64 {
	product := int64(1)
	for _, n := range t.Sizes[i] {
		if n <= 0 {
			return 0
		}
		if product > workload.MaxMessage/n {
			return workload.MaxMessage + 1
		}
		product *= n
	}
	return product
}

// Type is the type of the first tensor, "" if there is none.
func (t *Tensors) Type() string {
	for _, name := range t.Types {
		if name != "" && name != "Undefined" {
			return name
		}
	}
	return ""
}

// String is such as "Float [1024]".
func (t *Tensors) String() string {
	const most = 4
	var parts []string
	for i, size := range t.Sizes {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(t.Sizes)-most))
			break
		}
		text := strings.ReplaceAll(fmt.Sprint(size), " ", ",")
		if i < len(t.Types) {
			text = t.Types[i] + " " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "no tensor"
	}
	return strings.Join(parts, ", ")
}

// Marker tells whether the entry only ends a coalesced group of calls, which come before it with the same number.
func (e *Entry) Marker() bool {
	return e.Func.Name == "coalesced" || strings.HasSuffix(e.Func.Name, "_coalesced") && len(e.In.Sizes)+
		len(e.Out.Sizes) == 0
}
