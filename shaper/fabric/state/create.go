// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// HopSpec is one hop of a fabric to be made. Src and Dst are NIC numbers,
// node*NICsPerNode + index, the same for a port; for a trunk, numbers of switches.
type HopSpec struct {
	Kind     link.HopKind
	Src, Dst uint32
	Spec     link.Spec
}

// PathSpec is the path from NIC Src to NIC Dst: indices of hops.
type PathSpec struct {
	Src, Dst int
	Hops     []link.PathHop
}

// Spec is a fabric to be made. Times of Transport are unscaled.
type Spec struct {
	Name, Profile                   string
	Nodes, GPUsPerNode, NICsPerNode int
	TimeScale                       int
	Seed                            uint64
	Transport                       link.Transport
	Hops                            []HopSpec
	Paths                           []PathSpec
	Table                           *link.JitterTable // for link.Table, may be nil
	Config                          []byte            // the fabric as text, for reading back
	// on the kernel datapath, where jobs share the counters of packets
	Kernel  bool
	Virtual bool // time is virtual, see package clock
	// each flow has a path of its own, of which Paths has one for each pair
	FlowPaths bool
	GPU       GPU
	NodeTime  NodeTime
	Planned   []PlannedChange // of a fabric with a virtual clock, in the order of their times
}

// Create makes the file of a fabric. The file gets its name when it is complete: a process that is killed meanwhile
// leaves nothing behind. The error wraps fs.ErrExist if there is a fabric of that name.
func (d *Dir) Create(s Spec) (*File, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		f, err := d.create(&s)
		if !errors.Is(err, unix.ENOENT) || attempt == 50 {
			return f, err
		}
		// The folder was removed together with its last fabric.
		if err := d.reopen(); err != nil {
			return nil, err
		}
	}
}

func (d *Dir) create(s *Spec) (*File, error) {
	h, err := s.header(d.uid)
	if err != nil {
		return nil, err
	}
	fd, tmp, err := d.unnamed(s.Name)
	if err != nil {
		return nil, fmt.Errorf("make the fabric's file in %s: %w", d.Path, err)
	}
	if tmp != "" {
		defer unix.Unlinkat(d.fd, tmp, 0)
	}
	f, err := d.fill(fd, h, s)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if h.hasFlows() {
		if err := d.makeFlows(f); err != nil {
			f.Close()
			return nil, err
		}
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), d.fd, s.Name+Suffix, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		if h.hasFlows() {
			_ = unix.Unlinkat(d.fd, flowsName(s.Name, h.FabricID), 0)
		}
		f.Close()
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf(
				"fabric %s is up already: take it down with `ddlemu down %s` or choose another name: %w",
				s.Name, s.Name, os.ErrExist)
		}
		return nil, fmt.Errorf("name the fabric's file: %w", err)
	}
	return f, nil
}

// unnamed makes a file without a name in the folder. If the file system does not support
// that, the file has the name tmp.
func (d *Dir) unnamed(name string) (fd int, tmp string, err error) {
	if !d.named {
		fd, err = unix.Openat(d.fd, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
		if !errors.Is(err, unix.EOPNOTSUPP) {
			return fd, "", err
		}
	}
	tmp = fmt.Sprintf(".%s.%d.%d", name, os.Getpid(), time.Now().UnixNano())
	fd, err = unix.Openat(d.fd, tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	return fd, tmp, err
}

// fill writes the file. It reserves the file's memory first, so that a full /dev/shm is an
// error here and not a SIGBUS in a training job.
func (d *Dir) fill(fd int, h *header, s *Spec) (*File, error) {
	if int(d.uid) != os.Getuid() {
		if err := unix.Fchown(fd, int(d.uid), -1); err != nil {
			return nil, fmt.Errorf("give the fabric to user %d: %w", d.uid, err)
		}
	}
	if err := unix.Fallocate(fd, 0, 0, int64(h.FileSize)); err != nil {
		return nil, fmt.Errorf("reserve %d KiB in %s (is it full? see df): %w", h.FileSize>>10, d.Path, err)
	}
	mem, err := unix.Mmap(fd, 0, int(h.FileSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the fabric's file: %w", err)
	}
	f := &File{dir: d.Path, fd: fd, mem: mem}
	*f.head() = *h
	for i, hop := range s.Hops {
		b, err := link.NewBlock(hop.Spec, s.TimeScale)
		if err != nil {
			unix.Munmap(mem)
			return nil, fmt.Errorf("hop %d: %w", i, err)
		}
		f.blocks()[i] = b
		f.hops()[i] = link.Hop{ID: uint32(i), Kind: hop.Kind, Src: hop.Src, Dst: hop.Dst, Block: uint32(i)}
	}
	for i, c := range s.Planned {
		b, err := link.NewBlock(c.Spec, s.TimeScale)
		if err != nil {
			unix.Munmap(mem)
			return nil, fmt.Errorf("planned change of hop %d: %w", c.Hop, err)
		}
		n := h.Blocks - uint32(len(s.Planned)-i)
		f.blocks()[n] = b
		f.planned()[i] = link.PlannedChange{Time: c.Time, Hop: uint32(c.Hop), Block: n}
	}
	for _, p := range s.Paths {
		e := &f.pathTable()[p.Src*h.nics()+p.Dst]
		e.N = uint8(len(p.Hops))
		for i, step := range p.Hops {
			e.Hops[i] = uint32(step.Hop)
			if step.Private {
				e.Private |= 1 << i
			}
		}
	}
	t := f.tables()
	t[0], t[1] = *link.NormalTable(), *link.ParetoTable()
	if s.Table != nil {
		t[2] = *s.Table
	}
	copy(mem[h.ConfigOff:], s.Config)
	if s.Virtual {
		clock.Init(f.Clock(), s.Nodes, maxParticipants)
	}
	return f, nil
}

// Check returns the error with which Create would refuse s, such as too many links for the
// file. It does not look for other fabrics.
func (s *Spec) Check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	nics := s.Nodes * s.NICsPerNode
	switch {
	case s.Nodes < 1 || s.GPUsPerNode < 0 || s.NICsPerNode < 1:
		return fmt.Errorf("fabric %s: nodes, GPUs and NICs must be given", s.Name)
	case s.Nodes > maxNodes || s.GPUsPerNode > maxNodes || s.NICsPerNode > maxNICsPerNode || nics > maxNICs:
		return fmt.Errorf("fabric %s: %d nodes with %d NICs and %d GPUs each are too many: at most %d NICs", s.Name,
			s.Nodes, s.NICsPerNode, s.GPUsPerNode, maxNICs)
	case s.Virtual && (s.Kernel || s.TimeScale != 1):
		return fmt.Errorf("fabric %s: a virtual clock needs datapath shm and time scale 1", s.Name)
	case s.TimeScale < 1 || s.TimeScale > link.MaxTimeScale:
		return fmt.Errorf("fabric %s: time scale %d: must be 1 to %d", s.Name, s.TimeScale, link.MaxTimeScale)
	case len(s.Hops) > maxHops:
		return fmt.Errorf("fabric %s: %d ports and links, at most %d: fewer nodes or NICs", s.Name, len(s.Hops),
			maxHops)
	case len(s.Config) > maxConfig:
		return fmt.Errorf("fabric %s: its description has %d bytes, at most %d", s.Name, len(s.Config), maxConfig)
	case len(s.Profile) >= nameSize:
		return fmt.Errorf("fabric %s: profile name %q is too long", s.Name, s.Profile)
	}
	if err := s.GPU.check(); err != nil {
		return fmt.Errorf("fabric %s: %w", s.Name, err)
	}
	if !s.NodeTime.plausible(s.Nodes, s.GPUsPerNode, len(s.Hops)) {
		return fmt.Errorf("fabric %s: the time of its nodes is not possible, or does not match its hops", s.Name)
	}
	for i, h := range s.Hops {
		if !endsExist(h.Kind, h.Src, h.Dst, nics, s.Nodes*s.GPUsPerNode) {
			return fmt.Errorf("fabric %s: hop %d of kind %d from NIC %d to NIC %d of %d: not possible", s.Name, i,
				h.Kind, h.Src, h.Dst, nics)
		}
		if _, err := link.NewParams(h.Spec, s.TimeScale); err != nil {
			return fmt.Errorf("fabric %s: hop %d: %w", s.Name, i, err)
		}
	}
	if err := s.checkPlanned(); err != nil {
		return fmt.Errorf("fabric %s: %w", s.Name, err)
	}
	for _, p := range s.Paths {
		if p.Src < 0 || p.Dst < 0 || p.Src >= nics || p.Dst >= nics || len(p.Hops) == 0 || len(p.Hops) > link.MaxHops {
			return fmt.Errorf("fabric %s: path %d to %d with %d hops: not possible", s.Name, p.Src, p.Dst, len(p.Hops))
		}
		for _, step := range p.Hops {
			if step.Hop < 0 || step.Hop >= len(s.Hops) {
				return fmt.Errorf("fabric %s: path %d to %d uses hop %d of %d", s.Name, p.Src, p.Dst, step.Hop,
					len(s.Hops))
			}
		}
	}
	return nil
}

// checkPlanned checks the planned changes.
func (s *Spec) checkPlanned() error {
	switch {
	case len(s.Planned) > 0 && !s.Virtual:
		return errors.New("planned changes of links need a virtual clock")
	case len(s.Planned) > link.MaxPlannedChanges:
		return fmt.Errorf("%d planned changes of links are too many: at most %d", len(s.Planned), link.MaxPlannedChanges)
	}
	last := int64(clock.Start)
	for _, c := range s.Planned {
		switch {
		case c.Hop < 0 || c.Hop >= len(s.Hops):
			return fmt.Errorf("a planned change of hop %d of %d", c.Hop, len(s.Hops))
		case c.Time < last:
			return fmt.Errorf("a planned change of hop %d at %d ns comes after one at %d ns, or after the clock's start",
				c.Hop, c.Time, last)
		}
		if _, err := link.NewParams(c.Spec, s.TimeScale); err != nil {
			return fmt.Errorf("a planned change of hop %d: %w", c.Hop, err)
		}
		last = c.Time
	}
	return nil
}

// header is the header of the file, for user uid.
func (s *Spec) header(uid uint32) (*header, error) {
	h := header{
		Magic: Magic, Version: Version, Layout: layoutSum, UID: uid,
		Created: Now(), FabricID: rand.Uint64() | 1, Seed: s.Seed,
		TimeScale: uint32(s.TimeScale), Nodes: uint32(s.Nodes), GPUsPerNode: uint32(s.GPUsPerNode),
		NICsPerNode: uint32(s.NICsPerNode),
		Hops:        uint32(len(s.Hops)), Blocks: blocksFor(len(s.Hops), len(s.Planned)),
		Participants: maxParticipants, Events: maxEvents, ConfigLen: uint32(len(s.Config)),
		Transport: s.Transport.Scaled(int64(s.TimeScale)),
	}
	for _, hop := range s.Hops {
		if hop.Kind == link.Link {
			h.Links++
		}
	}
	h.NodeTime = s.NodeTime
	if s.NodeTime.On != 0 && !s.Virtual {
		h.NodeRows = uint32(NodeParts * h.gpus())
	}
	h.Jobs = jobsFor(int(h.Hops+h.NodeRows), s.Kernel)
	h.Paths = uint32(h.nics() * h.nics())
	if s.Kernel {
		h.Snapshots = snapshotsFor(h.Jobs, h.Hops)
	}
	if s.Virtual {
		h.VirtualClock = 1
	}
	if s.FlowPaths {
		h.FlowPaths = 1
	}
	h.Planned = uint32(len(s.Planned))
	h.GPU = s.GPU.entry()
	copy(h.Name[:], s.Name)
	copy(h.Profile[:], s.Profile)
	var err error
	if h.BootID, h.TimeNamespace, err = bootAndTime(); err != nil {
		return nil, err
	}
	h = h.place()
	return &h, nil
}
