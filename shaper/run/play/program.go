// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// rankFuncs are the names of the collectives in the ranks' programs.
var rankFuncs = map[workload.Func]string{
	workload.AllReduce: "all_reduce", workload.AllGather: "all_gather", workload.ReduceScatter: "reduce_scatter",
	workload.Broadcast: "broadcast", workload.Reduce: "reduce", workload.AllToAll: "alltoall",
	workload.Gather:  "gather",
	workload.Scatter: "scatter",
}

// rankTypes are the names of the types there. The ranks have no 8-bit floats: NCCL and the network treat integers of
// that size alike.
var rankTypes = map[string]string{
	"int8": "int8", "uint8": "uint8", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64",
	"float16": "half", "float32": "float", "float64": "double", "bfloat16": "bfloat16",
	"float8e4m3": "uint8", "float8e5m2": "uint8",
}

// commName is the name of a communicator of the workload for the ranks.
func commName(comm int32) string { return "c" + strconv.Itoa(int(comm)) }

// write writes the plan as the program of a rank, see cuda/rank/program.h. groups, if not nil, has what the rank does
// with its memory, one group for each item; with values, inputs are written and outputs compared.
func (p *plan) write(out io.Writer, groups *p2p.Plan, values bool) error {
	var m *memory
	if groups != nil {
		m = &memory{plan: groups, rank: &groups.Ranks[p.rank], values: values}
		if err := m.writeHead(out); err != nil {
			return err
		}
	}
	for i := range p.items {
		if err := p.items[i].write(out, m); err != nil {
			return err
		}
	}
	return nil
}

func (it *item) write(out io.Writer, m *memory) error {
	place := fmt.Sprintf("stream=%d", it.stream)
	if len(it.after) > 0 {
		place += " after=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(it.after), " ", ","), "[]")
	}
	var err error
	switch it.op.Kind {
	case workload.Calc:
		_, err = fmt.Fprintf(out, "calc %s ns=%d\n", place, it.op.Nanos)
	case workload.Wait:
		_, err = fmt.Fprintf(out, "wait %s\n", place)
	case workload.Group:
		if _, err = fmt.Fprintf(out, "group %s\n", place); err != nil {
			return err
		}
		if m != nil {
			return m.writeGroup(out, it)
		}
		for _, c := range it.calls {
			if _, err = fmt.Fprintf(out, "call %s\n", c.words()); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(out, "end")
	default:
		_, err = fmt.Fprintf(out, "call %s %s\n", place, it.calls[0].words())
	}
	return err
}

// words are a call in a program.
func (c *call) words() string {
	what, coll, root, op := c.what, "", c.what.Root, cmp.Or(c.what.RedOp, "sum") // of other calls nothing uses it
	switch what.Kind {
	case workload.Send:
		coll, root = "send", what.To
	case workload.Recv:
		coll, root = "recv", what.From
	default:
		coll = rankFuncs[what.Func]
	}
	text := fmt.Sprintf("comm=%s coll=%s type=%s op=%s root=%d count=%d", commName(what.Comm), coll,
		rankTypes[what.Type], op, root, what.Count)
	if c.check {
		text += " check=" + strconv.FormatInt(what.seed(), 10)
	}
	return text
}

// seed is the seed of the input, the same on all ranks of the call.
func (c Call) seed() int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%v", c.matched())
	return int64(h.Sum64() >> 2)
}
