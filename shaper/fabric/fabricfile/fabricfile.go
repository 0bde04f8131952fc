// SPDX-License-Identifier: Apache-2.0

// Package fabricfile describes a fabric for its mapped file (package state), reads it back, and changes its links while
// it is up.
package fabricfile

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Describe is what state.Dir.Create needs to bring up f under the given name.
func Describe(f *fabric.Fabric, name string) (state.Spec, error) {
	config, err := f.Config.Encode()
	if err != nil {
		return state.Spec{}, err
	}
	s := state.Spec{
		Name: name, Profile: f.Config.Name, Nodes: f.Config.Nodes, GPUsPerNode: f.Config.GPUsPerNode,
		NICsPerNode: f.Config.NICsPerNode,
		TimeScale:   f.TimeScale(), Seed: f.Config.Seed, Transport: f.Transport(), Table: f.JitterTable(),
		Config: config,
		Kernel: f.Config.OnKernel(), Virtual: f.Config.IsVirtual(),
		FlowPaths: f.PerFlow(),
		GPU:       gpuOf(&f.Config), NodeTime: nodeTimeOf(f),
	}
	for _, h := range f.Hops {
		s.Hops = append(s.Hops, state.HopSpec{Kind: h.Kind, Src: uint32(h.Src), Dst: uint32(h.Dst),
			Spec: h.Spec})
		if h.Kind != link.Link {
			continue
		}
		p := state.PathSpec{Src: h.Src, Dst: h.Dst}
		for _, step := range f.Path(h.Src, h.Dst) {
			p.Hops = append(p.Hops, link.PathHop(step))
		}
		s.Paths = append(s.Paths, p)
	}
	planned, err := f.PlannedChanges()
	if err != nil {
		return state.Spec{}, err
	}
	if !s.Virtual { // the job makes them: see package job
		return s, nil
	}
	for _, c := range planned {
		s.Planned = append(s.Planned, state.PlannedChange{Time: clock.Start + int64(c.At)*int64(s.TimeScale), Hop: c.Hop,
			Spec: c.Spec})
	}
	return s, nil
}

// gpuOf is the kind of GPU of c.
func gpuOf(c *configs.Fabric) state.GPU {
	if c.GPU == nil {
		return state.GPU{}
	}
	const mega = 8 * units.Mbps // one MB/s
	g, n, gpus := c.GPU, c.NodeNVLink(), c.NodeGPUs(c.GPUsPerNode)
	return state.GPU{
		Name: g.Name, Product: g.Product, Memory: uint64(g.Memory), Capability: int(g.Capability), SMs: g.SMs,
		PCIeGeneration: g.PCIe.Generation, PCIeLanes: g.PCIe.Lanes, NVLinkGeneration: n.Generation, NVLinks: n.Links,
		NVLinkMBps: int(n.Rate / mega), Switched: n.Connection == configs.SwitchedNVLink,
		C2CLinks: g.C2C.Links, C2CMBps: int(g.C2C.Rate / mega), NVLinkDomain: g.NVLinkDomain, GPUs: gpus,
		Between: n.Between(min(gpus, n.MostGPUs())),
	}
}

// nodeTimeOf is what the nodes of f cost, by the fabric's clock.
func nodeTimeOf(f *fabric.Fabric) state.NodeTime {
	if !f.Config.TimedNodes {
		return state.NodeTime{}
	}
	t := state.NodeTime{Time: f.NodeTime().Scaled(f.TimeScale()), On: 1, GPUs: uint32(f.Config.GPUsPerNode),
		FirstHop: uint32(f.FirstGPULink()), Groups: f.GPUGroups()}
	if f.IsMesh() {
		t.Mesh = 1
	}
	return t
}

// Read is the fabric of file with the parameters that are in force on its hops now.
func Read(file *state.File) (*fabric.Fabric, error) {
	c, err := configs.Decode("fabric "+file.Name(), file.Config())
	if err != nil {
		return nil, fmt.Errorf("read back fabric %s: %w", file.Name(), err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		return nil, fmt.Errorf("read back fabric %s: %w", file.Name(), err)
	}
	if n := file.HopCount(); n != len(fab.Hops) {
		return nil, fmt.Errorf("read back fabric %s: %w: it has %d hops, its description %d", file.Name(),
			state.ErrNotUsable, n, len(fab.Hops))
	}
	for i := range fab.Hops {
		h := &fab.Hops[i]
		if kind, src, dst := file.EndsOf(i); h.Kind != kind || h.Src != src || h.Dst != dst {
			return nil, fmt.Errorf("read back fabric %s: %w: hop %d is not the one of its description", file.Name(),
				state.ErrNotUsable, i)
		}
		h.Spec, _, _ = file.SpecOf(i)
	}
	return fab, nil
}

// Time is the time of the emulated network since the fabric of file was brought up, by the fabric's clock.
func Time(file *state.File) time.Duration {
	began := file.Fixed().Created
	if file.Virtual() {
		began = clock.Start
	}
	return time.Duration((file.Now() - began) / int64(file.Fixed().TimeScale))
}

// Shape changes the hops of file that pattern names (see configs.Pattern) and
// returns those that are different now. Processes that shape at the same time do
// not undo each other's changes.
func Shape(file *state.File, pattern string, p configs.LinkPatch) (changed []int, err error) {
	return ShapeIf(file, pattern, p, func(link.Spec) error { return nil })
}

// ShapeIf is Shape, but changes nothing if check returns an error for a link as it
// would be after the change.
func ShapeIf(file *state.File, pattern string, p configs.LinkPatch, check func(link.Spec) error) (changed []int,
	err error) {
	err = file.Update(func() (map[int]link.Spec, error) {
		fab, err := Read(file)
		if err != nil {
			return nil, err
		}
		if changed, err = fab.Shape(pattern, p); err != nil {
			return nil, err
		}
		specs := map[int]link.Spec{}
		for _, hop := range changed {
			specs[hop] = fab.Hops[hop].Spec
			if fab.Hops[hop].Kind == link.Link {
				if err := check(specs[hop]); err != nil {
					return nil, fmt.Errorf("%s: %w", fab.HopName(hop), err)
				}
			}
		}
		return specs, nil
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// DownLimit is how long a job waits for a link that is down before its calls fail, in words: in real time, or of the
// virtual clock. It is empty on the kernel datapath, where that is up to the kernel's TCP.
func DownLimit(file *state.File, fab *fabric.Fabric) string {
	if fab.Config.OnKernel() {
		return ""
	}
	limit := time.Duration(fab.Transport().DownTimeout)
	text := (limit * time.Duration(file.Fixed().TimeScale)).Round(time.Millisecond).String()
	if file.Virtual() {
		text += " of the virtual clock"
	}
	return text
}
