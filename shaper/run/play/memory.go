// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// memory writes what a rank of a schedule does with its memory. The groups are written in order.
type memory struct {
	plan   *p2p.Plan
	rank   *p2p.Rank
	values bool // write inputs, and compare outputs
	next   int  // group
}

// valueSeed is the seed of the inputs.
const valueSeed = 1

func digit(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (m *memory) writeHead(out io.Writer) error {
	_, err := fmt.Fprintf(out, "memory count=%d clear=%d\n", m.rank.Memory, digit(m.values))
	return err
}

// writeGroup writes the lines of an item behind its first one.
func (m *memory) writeGroup(out io.Writer, it *item) error {
	if m.next >= len(m.rank.Groups) {
		return fmt.Errorf("the workload has more groups than the %d of its schedule", len(m.rank.Groups))
	}
	g := &m.rank.Groups[m.next]
	if len(it.calls) != len(g.Sends)+len(g.Recvs) {
		return fmt.Errorf("group %d has %d calls, in its schedule %d", m.next, len(it.calls), len(g.Sends)+len(g.Recvs))
	}
	var b strings.Builder
	if m.next == 0 && m.values {
		for _, v := range m.rank.Inputs {
			fmt.Fprintf(&b, "input to=%d first=%d count=%d reduced=%d seed=%d\n", v.At, v.First, v.Count, digit(v.Sum),
				valueSeed)
		}
	}
	writeMoves(&b, g.Moves)
	for i := range it.calls {
		x := &g.Sends
		k := i
		if i >= len(g.Sends) {
			x, k = &g.Recvs, i-len(g.Sends)
		}
		fmt.Fprintf(&b, "call %s at=%d\n", it.calls[i].words(), (*x)[k].At)
	}
	if m.next++; m.next == len(m.rank.Groups) {
		writeMoves(&b, m.rank.Last)
		if m.values {
			for _, v := range m.rank.Expect {
				fmt.Fprintf(&b, "expect from=%d first=%d count=%d reduced=%d source=%d seed=%d\n", v.At, v.First,
					v.Count, digit(v.Sum), v.Source, valueSeed)
			}
		}
	}
	b.WriteString("end\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func writeMoves(b *strings.Builder, moves []p2p.Move) {
	for _, x := range moves {
		verb := "copy"
		if x.Add {
			verb = "add"
		}
		fmt.Fprintf(b, "%s to=%d from=%d count=%d\n", verb, x.To, x.From, x.Count)
	}
}
