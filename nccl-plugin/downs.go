// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// downWatch says in NCCL's log when links that this node may use go down, and when calls that need them will fail. At a
// large time scale that is hours away, and until then nothing else tells why the job stands still.
type downWatch struct {
	file  *state.File
	fab   *fabric.Fabric
	node  int
	limit string // see live.DownLimit
	warn  func(text string)

	changes uint64
	down    map[int]bool // hops that were down at the last look; nil before the first one
}

// look warns once of the hops that have gone down since the last look.
func (w *downWatch) look() {
	changes := w.file.Changes()
	if w.down != nil && changes == w.changes {
		return
	}
	w.changes = changes
	was := w.down
	w.down = map[int]bool{}
	first, more := "", 0
	for _, h := range w.file.Hops() {
		if !h.Spec.Down || !w.uses(&h) {
			continue
		}
		w.down[h.Index] = true
		switch {
		case was[h.Index]:
		case first == "":
			first = w.fab.HopName(h.Index)
		default:
			more++
		}
	}
	if first == "" {
		return
	}
	what, them := first+" is", "it"
	if more > 0 {
		what, them = fmt.Sprintf("%s and %s are", first, units.Count(more, "other link")), "them"
	}
	w.warn(fmt.Sprintf("%s down: a call that needs %s fails after %s", what, them, w.limit))
}

// uses reports whether messages of this node may cross a hop. Paths between switches are not looked up.
func (w *downWatch) uses(h *state.HopStatus) bool {
	if h.Kind == state.Trunk {
		return true
	}
	return w.fab.NodeOfNIC(h.Src) == w.node || w.fab.NodeOfNIC(h.Dst) == w.node
}
