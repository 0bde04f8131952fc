// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Programs are the loaded programs of one fabric. Its methods are called by one goroutine.
type Programs struct {
	nodes.Network
	objects  shapeObjects
	attached []io.Closer
	edt      bool          // the programs compute departure times
	params   []link.Params // in force, by hop
	slots    []uint32      // which of a hop's two entries of the map of parameters is in force
	counted  []shapeHop    // counters at the last Count, by hop
	tap      *Tap
}

// maxLatenessHops is the most hops for which lateness is recorded. A hop takes 2 KiB.
const maxLatenessHops = 1 << 14

// Load loads the programs for the fabric of w and attaches them to its NICs and ports. With edt, the programs compute
// departure times, and each NIC and port needs an fq that sends the packets at these times.
func Load(w nodes.Network, edt bool) (_ *Programs, err error) {
	p := &Programs{Network: w, edt: edt}
	spec, err := loadSpec(edt)
	if err != nil {
		return nil, err
	}
	if err := p.setSizes(spec); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the BPF programs: %w", err)
	}
	p.keepObjects(c)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.writeTables(); err != nil {
		return nil, err
	}
	if err := p.writePorts(); err != nil {
		return nil, err
	}
	if err := p.Follow(); err != nil {
		return nil, err
	}
	return p, p.attach()
}

// loadSpec returns the programs and maps to load.
func loadSpec(edt bool) (*ebpf.CollectionSpec, error) {
	spec, err := loadShape()
	if err != nil {
		return nil, err
	}
	delete(spec.Programs, shapeProgVector)
	delete(spec.Programs, shapeProgChain)
	if !edt {
		// These need a newer kernel.
		delete(spec.Programs, shapeProgForward)
		delete(spec.Programs, shapeProgArrive)
		return spec, nil
	}
	if err := spec.Variables[shapeVarEdt].Set(uint32(1)); err != nil {
		return nil, fmt.Errorf("set %s of the BPF programs: %w", shapeVarEdt, err)
	}
	return spec, nil
}

// setSizes sets the sizes of the maps and the constants of spec to the sizes and constants of the fabric.
func (p *Programs) setSizes(spec *ebpf.CollectionSpec) error {
	hops, nics := len(p.Fabric.Hops), p.Fabric.NICs()
	p.params, p.slots, p.counted = make([]link.Params, hops), make([]uint32, hops), make([]shapeHop, hops)
	for name, n := range map[string]int{
		shapeMapAllParams: 2 * hops, shapeMapHops: hops, shapeMapSlots: hops,
		shapeMapPortNics: nics, shapeMapNicPorts: nics, shapeMapLate: 1, shapeMapTapMissed: hops,
	} {
		spec.Maps[name].MaxEntries = uint32(n)
	}
	if p.RecordsLateness() {
		spec.Maps[shapeMapLate].MaxEntries = uint32(hops)
	}
	for name, v := range map[string]any{
		shapeVarNics: uint32(nics), shapeVarNicsPerNode: uint32(p.Fabric.Config.NICsPerNode),
		shapeVarSeed: p.File.Fixed().Seed, shapeVarTimeScale: uint32(p.Fabric.TimeScale()),
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s of the BPF programs: %w", name, err)
		}
	}
	return nil
}

// keepObjects moves the programs and maps of c to the generated struct. Programs that are not loaded are nil.
func (p *Programs) keepObjects(c *ebpf.Collection) {
	p.objects.shapePrograms = shapePrograms{Tx: c.Programs[shapeProgTx], Forward: c.Programs[shapeProgForward],
		Rx: c.Programs[shapeProgRx], Arrive: c.Programs[shapeProgArrive]}
	m := c.Maps
	p.objects.shapeMaps = shapeMaps{
		AllParams: m[shapeMapAllParams], Flows: m[shapeMapFlows], Hops: m[shapeMapHops], Late: m[shapeMapLate],
		NicPorts: m[shapeMapNicPorts], PortNics: m[shapeMapPortNics], Slots: m[shapeMapSlots],
		Tables:    m[shapeMapTables],
		TapMissed: m[shapeMapTapMissed], TapRing: m[shapeMapTapRing], Vectors: m[shapeMapVectors],
	}
	p.tap = &Tap{ring: m[shapeMapTapRing], missed: m[shapeMapTapMissed], snap: c.Variables[shapeVarTapSnap]}
	// The programs keep references to the rest of the collection, such as the constants.
	for name := range c.Programs {
		c.DetachProgram(name)
	}
	for _, name := range []string{
		shapeMapAllParams, shapeMapFlows, shapeMapHops, shapeMapLate, shapeMapNicPorts, shapeMapPortNics, shapeMapSlots,
		shapeMapTables, shapeMapTapMissed, shapeMapTapRing,
		shapeMapVectors,
	} {
		c.DetachMap(name)
	}
	c.Close()
}

// RecordsLateness reports whether the programs record the lateness of packets.
func (p *Programs) RecordsLateness() bool { return p.edt && len(p.Fabric.Hops) <= maxLatenessHops }

// writeTables writes the quantiles of the jitter distributions.
func (p *Programs) writeTables() error {
	for i, t := range p.File.Tables() {
		if err := p.objects.Tables.Put(uint32(i), t[:]); err != nil {
			return fmt.Errorf("write the quantiles of the jitter: %w", err)
		}
	}
	return nil
}

// writePorts writes the interface index of each port of the switch.
func (p *Programs) writePorts() error {
	h, err := nodes.OpenNetlink(p.Plan.Switch)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, n := range p.Plan.Nodes {
		for _, nic := range n.NICs {
			l, err := h.LinkByName(nic.Port)
			if err != nil {
				return fmt.Errorf("find port %s: %w", nic.Port, err)
			}
			index, number := uint32(l.Attrs().Index), uint32(nic.Number)
			if err := errors.Join(p.objects.PortNics.Put(index, number),
				p.objects.NicPorts.Put(number, index)); err != nil {
				return fmt.Errorf("write the index of port %s: %w", nic.Port, err)
			}
		}
	}
	return nil
}

// Follow applies changed parameters. Those of one hop change atomically.
func (p *Programs) Follow() error {
	for i := range p.params {
		now := p.File.InForce(i)
		if now == p.params[i] {
			continue
		}
		// Write the entry that the programs do not use, then publish it.
		slot := 1 - p.slots[i]
		if err := p.objects.AllParams.Put(uint32(2*i)+slot, &now); err != nil {
			return fmt.Errorf("change %s: %w", p.Fabric.HopName(i), err)
		}
		if err := p.objects.Slots.Put(uint32(i), slot); err != nil {
			return fmt.Errorf("change %s: %w", p.Fabric.HopName(i), err)
		}
		p.params[i], p.slots[i] = now, slot
	}
	return nil
}

// Close detaches and unloads the programs.
func (p *Programs) Close() error {
	var errs []error
	for _, a := range p.attached {
		errs = append(errs, a.Close())
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
