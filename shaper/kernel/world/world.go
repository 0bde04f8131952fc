// SPDX-License-Identifier: Apache-2.0

// Package world is what shapers of the kernel datapath work on.
package world

import (
	"errors"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// World is what a shaper works on: the namespaces of Plan are there, the NICs are
// up, and the ports of the switch are not connected with each other yet.
type World struct {
	File   *state.File
	Fabric *fabric.Fabric
	Plan   *plan.Plan
}

// Shaper puts the links of a fabric into force between its namespaces. Its methods
// are called by one goroutine.
type Shaper interface {
	// Follow puts changed parameters into force. It is called when the fabric's
	// file says that a hop has changed.
	Follow() error
	// Count brings the counters in the fabric's file up to date.
	Count() error
	// Close ends what Start began, but for what goes with the namespaces.
	Close() error
}

// ErrCannot says that a shaper, or this kernel, cannot do what is asked for.
var ErrCannot = errors.New("cannot be had")
