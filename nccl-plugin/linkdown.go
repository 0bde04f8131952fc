// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// downWatch says in NCCL's log when links that this node may use go down, and when calls that need them will fail. At a
// large time scale that is hours away, and until then nothing else tells why the job stands still.
type downWatch struct {
	file  *state.File
	nics  int // per node
	node  int
	limit string // see fabricfile.DownLimit
	warn  func(text string)

	changes uint64
	down    map[int]bool // hops that were down at the last poll; nil before the first one
}

// poll warns once of the hops that have gone down since the last poll.
func (w *downWatch) poll() {
	changes := w.file.Changes()
	if w.down != nil && changes == w.changes {
		return
	}
	w.changes = changes
	was := w.down
	w.down = map[int]bool{}
	first, more := -1, 0
	for hop := range w.file.HopCount() {
		if !w.uses(hop) {
			continue
		}
		if spec, _, _ := w.file.SpecOf(hop); !spec.Down {
			continue
		}
		w.down[hop] = true
		switch {
		case was[hop]:
		case first < 0:
			first = hop
		default:
			more++
		}
	}
	if first < 0 {
		return
	}
	// Names are needed once in a while, so no process keeps the fabric's description: a large fabric's has
	// megabytes.
	fab, err := fabricfile.Read(w.file)
	if err != nil {
		w.warn(err.Error())
		return
	}
	what, them := fab.HopName(first)+" is", "it"
	if more > 0 {
		what, them = fmt.Sprintf("%s and %s are", fab.HopName(first), units.Count(more, "other link")), "them"
	}
	w.warn(fmt.Sprintf("%s down: a call that needs %s fails after %s", what, them, w.limit))
}

// uses reports whether messages of this node may cross a hop. Paths between switches are not looked up.
func (w *downWatch) uses(hop int) bool {
	kind, src, dst := w.file.EndsOf(hop)
	return kind == link.Trunk || src/w.nics == w.node || dst/w.nics == w.node
}
