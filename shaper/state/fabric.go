// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
)

var hopKinds = map[fabric.Kind]uint32{fabric.TxPort: TxPort, fabric.RxPort: RxPort, fabric.Link: Link, fabric.Trunk: Trunk}

// SpecOf is what Create needs to bring up f under the given name.
func SpecOf(f *fabric.Fabric, name string) (Spec, error) {
	config, err := f.Config.Encode()
	if err != nil {
		return Spec{}, err
	}
	s := Spec{
		Name: name, Profile: f.Config.Name, Nodes: f.Config.Nodes, GPUsPerNode: f.Config.GPUsPerNode, NICsPerNode: f.Config.NICsPerNode,
		TimeScale: f.TimeScale(), Seed: f.Config.Seed, Transport: f.Transport(), Table: f.JitterTable(), Config: config, Kernel: f.Config.OnKernel(),
	}
	for _, h := range f.Hops {
		s.Hops = append(s.Hops, HopSpec{Kind: hopKinds[h.Kind], Src: uint32(h.Src), Dst: uint32(h.Dst), Spec: h.Spec})
		if h.Kind != fabric.Link {
			continue
		}
		p := PathSpec{Src: h.Src, Dst: h.Dst}
		for _, step := range f.Path(h.Src, h.Dst) {
			p.Hops = append(p.Hops, PathStep(step))
		}
		s.Paths = append(s.Paths, p)
	}
	return s, nil
}

// Fabric is the fabric with what is in force on its hops now.
func (f *File) Fabric() (*fabric.Fabric, error) {
	c, err := configs.Decode("fabric "+f.Name(), f.Config())
	if err != nil {
		return nil, fmt.Errorf("read back fabric %s: %w", f.Name(), err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		return nil, fmt.Errorf("read back fabric %s: %w", f.Name(), err)
	}
	hops := f.Hops()
	if len(hops) != len(fab.Hops) {
		return nil, fmt.Errorf("read back fabric %s: %w: it has %d hops, its description %d", f.Name(), ErrNotUsable, len(hops), len(fab.Hops))
	}
	for i, h := range hops {
		if want := &fab.Hops[i]; hopKinds[want.Kind] != h.Kind || want.Src != h.Src || want.Dst != h.Dst {
			return nil, fmt.Errorf("read back fabric %s: %w: hop %d is not the one of its description", f.Name(), ErrNotUsable, i)
		}
		fab.Hops[i].Spec = h.Spec
	}
	return fab, nil
}

// Shape puts a change into force on the hops that pattern names (see
// configs.Pattern) and returns them. Of several at once, each keeps what the
// others changed.
func (f *File) Shape(pattern string, p configs.LinkPatch) (changed []int, err error) {
	return f.ShapeIf(pattern, p, func(link.Spec) error { return nil })
}

// ShapeIf is Shape if can, which is given what each link would be, has no error. With
// one, all stay as they are.
func (f *File) ShapeIf(pattern string, p configs.LinkPatch, can func(link.Spec) error) (changed []int, err error) {
	err = f.alone(func() error {
		fab, err := f.Fabric()
		if err != nil {
			return err
		}
		if changed, err = fab.Shape(pattern, p); err != nil {
			return err
		}
		specs := map[int]link.Spec{}
		for _, hop := range changed {
			specs[hop] = fab.Hops[hop].Spec
			if fab.Hops[hop].Kind == fabric.Link {
				if err := can(specs[hop]); err != nil {
					return fmt.Errorf("%s: %w", fab.HopName(hop), err)
				}
			}
		}
		return f.change(specs)
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}
