// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// funcs are the collectives, in the order in which tables show them.
var funcs = []Func{AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, AllToAll, Gather, Scatter}

// Funcs returns all collectives.
func Funcs() []Func { return slices.Clone(funcs) }

// ParseFunc reads the name of a collective in any of the usual spellings: AllReduce, allreduce, all_reduce.
func ParseFunc(name string) (Func, error) {
	wanted := plain(name)
	var names []string
	for _, f := range funcs {
		if wanted == plain(string(f)) {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("%q is no collective: there are %s", name, strings.Join(names, ", "))
}

// unmarked removes what separates words. To make a replacer takes long, and readers look up the name of each call.
var unmarked = strings.NewReplacer("_", "", "-", "")

// plain is a name in small letters, in one word.
func plain(name string) string { return unmarked.Replace(strings.ToLower(name)) }

// Known says whether f is one of the collectives.
func (f Func) Known() bool { return slices.Contains(funcs, f) }

// Reduces says whether f has a reduction operator.
func (f Func) Reduces() bool { return f == AllReduce || f == ReduceScatter || f == Reduce }

// Rooted says whether f has a root.
func (f Func) Rooted() bool { return f == Broadcast || f == Reduce || f == Gather || f == Scatter }

// Shares is by how much Count is multiplied to get nccl-tests' size, see [nccl.Collective.Shares]. It is 1 for other
// functions.
func (f Func) Shares(ranks int) int64 {
	if c, ok := collectives[f]; ok {
		return c.Shares(ranks)
	}
	return 1
}

var collectives = func() map[Func]nccl.Collective {
	out := map[Func]nccl.Collective{}
	for _, f := range funcs {
		c, err := nccl.ParseCollective(string(f))
		if err != nil {
			panic(err) // NCCL has every collective of workloads
		}
		out[f] = c
	}
	return out
}()

// typeSizes are the bytes of an element of NCCL's types.
var typeSizes = map[string]int64{
	"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "float16": 2, "float32": 4, "float64": 8,
	"bfloat16": 2, "float8e4m3": 1, "float8e5m2": 1,
}

// ncclTypes are the types in the order of ncclDataType_t.
var ncclTypes = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
	"bfloat16", "float8e4m3", "float8e5m2"}

// TypeOf is the type with a number of ncclDataType_t, "" if there is none.
func TypeOf(number int) string {
	if number < 0 || number >= len(ncclTypes) {
		return ""
	}
	return ncclTypes[number]
}

// TypeSize returns the bytes of an element of a type.
func TypeSize(name string) (int64, error) {
	if size, ok := typeSizes[name]; ok {
		return size, nil
	}
	return 0, unknown("type", name, slices.Sorted(maps.Keys(typeSizes)))
}

// redOps are NCCL's reduction operators, in the order of ncclRedOp_t.
var redOps = []string{"sum", "prod", "max", "min", "avg"}

// RedOpOf is the reduction operator with a number of ncclRedOp_t, as in [Op.RedOp]; false for one that a program has
// made.
func RedOpOf(number int) (string, bool) {
	if number <= 0 || number >= len(redOps) {
		return "", number == 0
	}
	return redOps[number], true
}

// unknown is the error of a name that is none of those that exist.
func unknown(what, name string, names []string) error {
	if near := configs.Nearest(name, names); len(near) > 0 {
		return fmt.Errorf("%q is no %s: did you mean %s?", name, what, strings.Join(near, " or "))
	}
	return fmt.Errorf("%q is no %s: there are %s", name, what, strings.Join(names, ", "))
}

// Bytes is nccl-tests' size of a call of a communicator of so many ranks, the larger of one rank's input and output; of
// a send or receive its message. It is 0 for other operations: ask the parts of a group.
func (o *Op) Bytes(ranks int) int64 {
	switch o.Kind {
	case Coll:
		return o.Count * typeSizes[o.Type] * o.Func.Shares(ranks)
	case Send, Recv:
		return o.Count * typeSizes[o.Type]
	}
	return 0
}

// PeerOf is the rank in the communicator that the caller at a place in a communicator of so many ranks sends to or
// receives from.
func (o *Op) PeerOf(at, ranks int) int {
	if !o.Relative {
		return o.Peer
	}
	return ((at+o.Peer)%ranks + ranks) % ranks
}

// StreamName is the stream of o, which has a name even if o gives none.
func (o *Op) StreamName() string { return cmp.Or(o.Stream, "0") }

// HasStream says whether operations of kind k execute on a stream.
func (k Kind) HasStream() bool { return k != Wait && k != Step }

// Parts are the calls of NCCL that o makes: the calls of a group, or o if it is a collective, send or receive.
func (o *Op) Parts() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		switch o.Kind {
		case Group:
			for i := range o.Ops {
				if !yield(&o.Ops[i]) {
					return
				}
			}
		case Coll, Send, Recv:
			yield(o)
		}
	}
}
