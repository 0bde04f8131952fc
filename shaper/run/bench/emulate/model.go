// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/internal/expected"
)

// Communicator is a communicator on a fabric, for [expect].
type Communicator struct{ times *expected.Times }

// NewCommunicator makes a communicator whose rank r is on node(r) of f. getenv are the variables of the ranks.
func NewCommunicator(f *fabric.Fabric, node func(rank int) int, getenv func(string) string) Communicator {
	return Communicator{expected.New(f, node, getenv)}
}

// Decision is NCCL's decision on a call, from its log.
func (c Communicator) Decision(call bench.Case) (plan.Decision, error) {
	return c.times.Decision(call)
}

// Fabric is the fabric at time scale 1. nics are those that NCCL uses, and rank is the rank in the job of one of the
// communicator.
func (c Communicator) Fabric(nics map[nccllog.Pair]nccllog.NICs, rank func(int) int) (*expect.Fabric, error) {
	return c.times.FabricOf(nics, rank)
}
