// SPDX-License-Identifier: Apache-2.0

package simai

import (
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// policy is what a parallelism of ASTRA-sim 1 does with the communications of a layer (iterate_* and
// decode_involved_dimensions of its Workload.cc). SimAI has the same.
type policy struct {
	forward, input, own bool // which of the communications are issued; own is that of the weights
	// inputOfFirst says whether the communication of the input gradients of the first layer is issued too.
	inputOfFirst bool
	inner, outer perrank.Group // of forward pass and input gradients, and of weight gradients
	// weightsFirst says that weight gradients are computed before input gradients, and the latter not for the first
	// layer.
	weightsFirst bool
	forwardOnly  bool
	// byNetwork says that the groups are dimensions of the simulated network, which the file does not have.
	byNetwork bool
}

const (
	micro       = "MICRO"
	customized  = "HYBRID_CUSTOMIZED"
	dlrm        = "HYBRID_DLRM"
	dlrmOverlap = "HYBRID_DLRM_ENHANCED"
)

var policies = map[string]policy{
	micro:                   {own: true, inner: perrank.Everyone, outer: perrank.Everyone},
	"DATA":                  {own: true, inner: perrank.Everyone, outer: perrank.Everyone, weightsFirst: true},
	"MODEL":                 {forward: true, input: true, inner: perrank.Everyone, outer: perrank.Everyone},
	"DISTRIBUTED_INFERENCE": {forward: true, forwardOnly: true, inner: perrank.Everyone, outer: perrank.Everyone},
	"HYBRID_DATA_MODEL": {forward: true, input: true, own: true, byNetwork: true, inner: perrank.Everyone,
		outer: perrank.Everyone},
	"HYBRID_MODEL_DATA": {forward: true, input: true, own: true, byNetwork: true, inner: perrank.Everyone,
		outer: perrank.Everyone},
	customized: {inner: perrank.Everyone, outer: perrank.Everyone},
	// A layer of a DLRM has only the communication of its weights, but for the first one, the embedding.
	dlrm:        {own: true, inner: perrank.Everyone, outer: perrank.Everyone},
	dlrmOverlap: {own: true, inner: perrank.Everyone, outer: perrank.Everyone},
	"HYBRID_TRANSFORMER": {forward: true, input: true, own: true, inputOfFirst: true,
		inner: perrank.Tensor, outer: perrank.Data},
	"HYBRID_TRANSFORMER_FWD_IN_BCKWD": {forward: true, input: true, own: true, inputOfFirst: true,
		inner: perrank.Tensor, outer: perrank.Data},
}

func policyNames() string {
	return strings.Join(slices.Sorted(maps.Keys(policies)), ", ")
}

// of is the policy of a layer, which names its own one in HYBRID_CUSTOMIZED.
func (h *head) of(l *layer) policy {
	if h.name == customized {
		return policies[l.policy]
	}
	return h.policy
}

// signsOfAICB are names of layers that only the generators of AICB write. Its older files have no other sign.
var signsOfAICB = []string{"micro_test", "grad_norm", "grad_gather", "grad_param", "Llama_layer"}

// meaning finds out whose sizes the file has: sizes of SimAI and AICB are of the whole, sizes of ASTRA-sim of what a
// rank puts in. It returns the sign, "" for ASTRA-sim.
func (h *head) meaning(layers []layer) string {
	if h.sign != "" {
		return h.sign + ": in the first line"
	}
	for i := range layers {
		for _, s := range signsOfAICB {
			if strings.HasPrefix(layers[i].name, s) {
				return "a layer " + layers[i].name
			}
		}
	}
	return ""
}
