// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"encoding/json"
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Attributes of ddlemu. Chakra has no place for times below a microsecond, streams, groups, steps, types and roots.
// Other tools pass over attributes that they do not know.
const (
	attrHead   = "ddlemu_head"   // of GlobalMetadata: the head of the workload
	attrOp     = "ddlemu_op"     // the operation; the nodes of an operation after the first have none
	attrBefore = "ddlemu_before" // a list of the operations without nodes between the node before and this one
	attrAfter  = "ddlemu_after"  // of the last node: the same, after it
)

// readOwn reads traces that this package has written.
func readOwn(traces []*trace) (*workload.Workload, error) {
	var head workload.Head
	if err := json.Unmarshal([]byte(traces[0].head[attrHead]), &head); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", traces[0].file, attrHead, err)
	}
	if head.Ranks != len(traces) || traces[len(traces)-1].number != head.Ranks-1 {
		return nil, fmt.Errorf("%s: the workload has %s, given: %s: give one per rank", traces[0].file,
			units.Count(head.Ranks, "rank"), units.Count(len(traces), "file"))
	}
	lists := make([][]workload.Op, len(traces))
	for i, t := range traces {
		if t.head[attrHead] != traces[0].head[attrHead] {
			return nil, fmt.Errorf("%s and %s are of different workloads", traces[0].file, t.file)
		}
		for _, n := range t.nodes {
			ops, err := ownOps(n)
			if err != nil {
				return nil, fmt.Errorf("%s: node %d: %w", t.file, n.id, err)
			}
			lists[i] = append(lists[i], ops...)
		}
	}
	w := &workload.Workload{Head: head}
	w.Ops = perrank.Join(lists, perrank.Comms(w))
	return w, nil
}

// ownOps are the operations that a node has in its attributes, in order.
func ownOps(n *node) ([]workload.Op, error) {
	var out []workload.Op
	for _, name := range []string{attrBefore, attrOp, attrAfter} {
		text, ok := n.own[name]
		if !ok {
			continue
		}
		if name == attrOp {
			text = "[" + text + "]"
		}
		var ops []workload.Op
		if err := json.Unmarshal([]byte(text), &ops); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, ops...)
	}
	return out, nil
}
