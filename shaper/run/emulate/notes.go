// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// retryNote says which attempt follows the given one, and why it is made.
func retryNote(attempt int, out Outcome) string {
	return fmt.Sprintf("%s: attempt %d, at time scale %d, was INVALID: %s", attemptName(attempt+1), attempt, out.Scale,
		out.Verdict.Summary)
}

// notes are the notes of the header: the reason for the time scale and for this attempt, and the basis of NCCL's
// decisions.
func (o *Options) notes(why, retry string) []string {
	var notes []string
	if why != "" {
		notes = append(notes, fmt.Sprintf("time scale %d %s", o.Config.TimeScale, why))
	}
	if retry != "" {
		notes = append(notes, retry)
	}
	return slices.Concat(notes, []string{"decisions: " + o.Header.Decisions}, o.TimeNote(), o.Caveats(), o.Header.Unused)
}

// TimeNote is the note on what GPUs cost, none on real GPUs.
func (o *Options) TimeNote() []string {
	if o.Header.Fabric.GPUTime == "" {
		return nil
	}
	return []string{"GPU time: " + o.Header.Fabric.GPUTime}
}

// uncontrolled says on which links of f flows do not slow down.
func (o *Options) uncontrolled(f *fabric.Fabric) []string {
	incast := o.Bench.Collective.IsP2P() && o.Bench.Collective != nccl.SendRecv && f.Config.Nodes > 2
	if text := f.Uncontrolled(f.All(), incast); text != "" {
		return []string{text}
	}
	return nil
}

// Notes says how expected times may differ from those on a real machine and a real network.
func (o *Options) Notes() ([]string, error) {
	f, err := o.askedFabric()
	if err != nil {
		return nil, err
	}
	return append(o.Caveats(), o.uncontrolled(f)...), nil
}

// Caveats says how decisions may differ from those on the real cluster.
func (o *Options) Caveats() []string {
	c := &o.Config
	var notes []string
	if name := o.tunerOfCluster(); name != "" {
		notes = append(notes,
			fmt.Sprintf(
				"on the real cluster %s chooses for %s from %d nodes on; ddlemu does not have it, so NCCL chooses by "+
					"itself here", name, o.Bench.Collective, c.NCCL.Tuner.Nodes))
	}
	if c.NCCLNet() == configs.NoNet {
		notes = append(notes,
			"the fabric's links stand for NVLink, over which NCCL sends without a net on a real machine: here it "+
				"chooses as for a network")
	}
	if used := o.gpus(c); c.Node.GPUs == 0 && c.NodeGPUs(used) > used && o.Header.View == configs.FabricView {
		notes = append(notes,
			fmt.Sprintf(
				"the job uses %s of a node with %d NICs: the node is taken to have %d GPUs, which the NICs serve in their "+
					"order; if it has another number of them, give it with --set node.gpus=N",
				units.Count(used, "GPU"), c.NICsPerNode, c.NodeGPUs(used)))
	}
	if note := o.noNVLink(); note != "" {
		notes = append(notes, note)
	}
	return append(notes, o.kindCaveats()...)
}

// kindCaveats says what NCCL would do on the real GPUs of the fabric's kind, and cannot do here.
func (o *Options) kindCaveats() (notes []string) {
	g := o.Config.GPU
	if g == nil || o.Libraries.CUDA != locate.Soft {
		return nil
	}
	const old, blackwell = "2.22", configs.Capability(100)
	if o.Libraries.Version == old && g.Capability >= blackwell {
		notes = append(notes, fmt.Sprintf(
			"NCCL %s does not know compute capability %v: it decides for all sizes as for 9.0; --nccl 2.29 knows it", old,
			g.Capability))
	}
	if o.Libraries.Version == old && o.Config.NCCL.Variables["NCCL_PROTO"] == "Simple" && o.Config.NodeNVLink().Links > 0 {
		notes = append(notes, fmt.Sprintf(
			"NCCL %s takes a step of a tree by Simple over NVLink for 28 us, versions from 2.23 on for 4 us: with "+
				"NCCL_PROTO=Simple it chooses rings for small all-reduces, which take several times as long; --nccl 2.29 "+
				"chooses as they do", old))
	}
	switch n := min(o.Config.DomainNodes(), o.Nodes(&o.Config)); {
	case n > 1 && o.Config.NodeTime:
		notes = append(notes, fmt.Sprintf(
			"each NVLink domain has %s: NCCL counts a domain as one node, and what its nodes send to each other does not "+
				"cross the links of the fabric", units.Count(n, "node")))
	case n > 1:
		notes = append(notes, fmt.Sprintf(
			"each NVLink domain has %s, between which NCCL sends over NVLinks for all sizes: here it sends over the "+
				"links of the fabric; --set node_time=on calculates with NVLinks", units.Count(n, "node")))
	}
	return notes
}

// tunerOfCluster is the name of the tuner that chooses on the real cluster and that ddlemu does not have, "" if NCCL
// chooses there too.
func (o *Options) tunerOfCluster() string {
	if t := o.Config.NCCL.Tuner; t.ChoosesFor(o.Bench.Collective.String(), o.Nodes(&o.Config)) {
		return t.Name
	}
	return ""
}

// noNVLink says that NVLink is missing where that matters, "" elsewhere.
func (o *Options) noNVLink() string {
	c := &o.Config
	if o.Libraries.CUDA != locate.Soft || o.gpus(c) < 2 || o.Bench.Collective.IsP2P() {
		return "" // of a P2P collective each flow uses the NIC beside its GPU
	}
	return NoNVLink(c, o.Header.View)
}

// NoNVLink says that several GPUs of a node have no NVLinks between them, and what that means for the NICs; "" where
// they have some, or where it does not matter. view is the view by which NCCL of the software CUDA decides.
func NoNVLink(c *configs.Fabric, view string) string {
	if c.NICsPerNode < 2 || c.GPU != nil {
		return "" // of a kind of GPU it is known what NVLinks it has
	}
	no := "the host's view has no NVLink between the GPUs of a node"
	switch {
	case view == configs.FabricView && c.NVLinksPerGPU > 0 || view == "":
		return ""
	case view == configs.FabricView:
		no = "nvlinks_per_gpu is 0"
	}
	return fmt.Sprintf("%s: where nodes have NVLink, NCCL may use more of their %d NICs at once", no, c.NICsPerNode)
}
