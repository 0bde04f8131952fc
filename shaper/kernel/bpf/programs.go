// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Programs are the programs of one fabric. Its methods are called by one goroutine.
type Programs struct {
	nodes.Network
	o        shapeObjects
	attached []io.Closer
	stamp    bool
	inForce  []shapeParams // by hop
	slots    []uint32
	seen     []shapeHop
}

// maxLate is the most hops for which lateness is recorded: a hop takes 2 KiB.
const maxLate = 1 << 14

// Load loads the programs for a fabric and attaches them to its NICs and ports. With
// stamp they compute departure times, which an fq at each NIC and port has to keep.
func Load(w nodes.Network, stamp bool) (_ *Programs, err error) {
	p := &Programs{Network: w, stamp: stamp}
	spec, err := wanted(stamp)
	if err != nil {
		return nil, err
	}
	if err := p.size(spec); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the BPF programs: %w", err)
	}
	p.take(c)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.tables(); err != nil {
		return nil, err
	}
	if err := p.ports(); err != nil {
		return nil, err
	}
	if err := p.Follow(); err != nil {
		return nil, err
	}
	return p, p.attach()
}

// wanted is the programs that a fabric needs, and its maps.
func wanted(stamp bool) (*ebpf.CollectionSpec, error) {
	spec, err := loadShape()
	if err != nil {
		return nil, err
	}
	delete(spec.Programs, shapeProgVector)
	if !stamp {
		// These ask more of the kernel.
		delete(spec.Programs, shapeProgForward)
		delete(spec.Programs, shapeProgArrive)
		return spec, nil
	}
	if err := spec.Variables[shapeVarStamp].Set(uint32(1)); err != nil {
		return nil, fmt.Errorf("set %s of the BPF programs: %w", shapeVarStamp, err)
	}
	return spec, nil
}

// size gives the maps and constants of spec the fabric's.
func (p *Programs) size(spec *ebpf.CollectionSpec) error {
	hops, nics := len(p.Fabric.Hops), p.Fabric.NICs()
	p.inForce, p.slots, p.seen = make([]shapeParams, hops), make([]uint32, hops), make([]shapeHop, hops)
	for name, n := range map[string]int{
		shapeMapAllParams: 2 * hops, shapeMapHops: hops, shapeMapSlots: hops,
		shapeMapPortNics: nics, shapeMapNicPorts: nics, shapeMapLate: 1,
	} {
		spec.Maps[name].MaxEntries = uint32(n)
	}
	if p.Verifies() {
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

// take is c in the form of the generated struct; programs that are not loaded are nil.
func (p *Programs) take(c *ebpf.Collection) {
	p.o.shapePrograms = shapePrograms{Tx: c.Programs[shapeProgTx], Forward: c.Programs[shapeProgForward], Rx: c.Programs[shapeProgRx], Arrive: c.Programs[shapeProgArrive]}
	m := c.Maps
	p.o.shapeMaps = shapeMaps{
		AllParams: m[shapeMapAllParams], Flows: m[shapeMapFlows], Hops: m[shapeMapHops], Late: m[shapeMapLate],
		NicPorts: m[shapeMapNicPorts], PortNics: m[shapeMapPortNics], Slots: m[shapeMapSlots], Tables: m[shapeMapTables], Vectors: m[shapeMapVectors],
	}
	// The rest of the collection, such as the constants, lives on in the programs.
	for name := range c.Programs {
		c.DetachProgram(name)
	}
	for _, name := range []string{
		shapeMapAllParams, shapeMapFlows, shapeMapHops, shapeMapLate, shapeMapNicPorts, shapeMapPortNics, shapeMapSlots, shapeMapTables, shapeMapVectors,
	} {
		c.DetachMap(name)
	}
	c.Close()
}

// Verifies says whether the programs record how late packets are.
func (p *Programs) Verifies() bool { return p.stamp && len(p.Fabric.Hops) <= maxLate }

// tables fills the quantiles of the jitters.
func (p *Programs) tables() error {
	for i, t := range p.File.Tables() {
		if err := p.o.Tables.Put(uint32(i), quantiles(t)); err != nil {
			return fmt.Errorf("write the quantiles of the jitter: %w", err)
		}
	}
	return nil
}

func quantiles(t *link.JitterTable) *shapeTable {
	var q shapeTable
	copy(q.Q[:], t[:])
	q.Q[len(t)] = t[len(t)-1]
	return &q
}

// ports tells the programs the indices of the switch's ports.
func (p *Programs) ports() error {
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
			if err := errors.Join(p.o.PortNics.Put(index, number), p.o.NicPorts.Put(number, index)); err != nil {
				return fmt.Errorf("name port %s to the BPF programs: %w", nic.Port, err)
			}
		}
	}
	return nil
}

// Follow puts changed parameters into force, each hop's at once.
func (p *Programs) Follow() error {
	for i := range p.inForce {
		now := paramsOf(p.File.InForce(i))
		if now == p.inForce[i] {
			continue
		}
		// Written where no program looks, then published.
		slot := 1 - p.slots[i]
		if err := p.o.AllParams.Put(uint32(2*i)+slot, &now); err != nil {
			return fmt.Errorf("change %s: %w", p.Fabric.HopName(i), err)
		}
		if err := p.o.Slots.Put(uint32(i), slot); err != nil {
			return fmt.Errorf("change %s: %w", p.Fabric.HopName(i), err)
		}
		p.inForce[i], p.slots[i] = now, slot
	}
	return nil
}

func paramsOf(l link.Params, framing uint32) shapeParams {
	s := shapeParams{
		NsNum: l.NsNum, NsDen: l.NsDen, Latency: l.Latency, Jitter: l.Jitter.Value, JitterKind: uint32(l.Jitter.Kind),
		LossP: l.Loss.P, BadP: l.Loss.BadP, GoodToBad: l.Loss.GoodToBad, BadToGood: l.Loss.BadToGood,
		QueueNs: uint64(l.QueueNs), Framing: framing,
	}
	if l.Policy == link.TailDrop {
		s.TailDrop = 1
	}
	if l.Down {
		s.Down = 1
	}
	return s
}

// Close detaches and unloads the programs.
func (p *Programs) Close() error {
	var errs []error
	for _, a := range p.attached {
		errs = append(errs, a.Close())
	}
	return errors.Join(append(errs, p.o.Close())...)
}
