// SPDX-License-Identifier: Apache-2.0

package state

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// HopSpec is one hop of a fabric to be made. Src and Dst are NIC numbers,
// node*NICsPerNode + index; a port has both the same.
type HopSpec struct {
	Kind     uint32
	Src, Dst uint32
	Spec     link.Spec
}

// PathSpec is the way from NIC Src to NIC Dst: indices of hops.
type PathSpec struct {
	Src, Dst int
	Hops     []PathStep
}

// PathStep is one hop of a path; Private as in link.PathHop.
type PathStep struct {
	Hop     int
	Private bool
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
}

// Sizes of the fixed tables, and the most that the counters may take. A fabric
// with many links has room for fewer jobs at once.
const (
	maxParticipants = 512
	maxEvents       = 256
	maxJobs         = 16
	maxCells        = 24 << 20
	maxConfig       = 1 << 20
	page            = 4096
)

const cellSize = int(unsafe.Sizeof(Cell{}))

// Create makes the file of a fabric, complete before it has its name. The error
// wraps fs.ErrExist when a fabric of that name is there.
func (d *Dir) Create(s Spec) (*File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	h, err := s.layout()
	if err != nil {
		return nil, err
	}
	h.UID = d.uid
	tmp := fmt.Sprintf(".%s.%d.%d", s.Name, os.Getpid(), time.Now().UnixNano())
	fd, err := unix.Openat(d.fd, tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the fabric's file in %s: %w", d.Path, err)
	}
	defer unix.Unlinkat(d.fd, tmp, 0)
	f, err := d.fill(fd, h, &s)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Linkat(d.fd, tmp, d.fd, s.Name+Suffix, 0); err != nil {
		f.Close()
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("fabric %s is up already: take it down with `ddlemu down %s` or choose another name: %w", s.Name, s.Name, os.ErrExist)
		}
		return nil, fmt.Errorf("name the fabric's file: %w", err)
	}
	return f, nil
}

// fill reserves the file's memory before it is touched, so that a full /dev/shm
// is an error here and not a SIGBUS in somebody's training job.
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
		p, err := link.NewParams(hop.Spec, s.TimeScale)
		if err != nil {
			unix.Munmap(mem)
			return nil, fmt.Errorf("hop %d: %w", i, err)
		}
		f.blocks()[i] = block(hop.Spec, p)
		f.hops()[i] = Hop{ID: uint32(i), Kind: hop.Kind, Src: hop.Src, Dst: hop.Dst, Params: uint32(i)}
	}
	nics := s.Nodes * s.NICsPerNode
	for _, p := range s.Paths {
		e := &f.pathTable()[p.Src*nics+p.Dst]
		e.N = uint8(len(p.Hops))
		for i, step := range p.Hops {
			e.Hops[i] = uint16(step.Hop)
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
	return f, nil
}

func (s *Spec) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	nics := s.Nodes * s.NICsPerNode
	switch {
	case s.Nodes < 1 || s.GPUsPerNode < 0 || s.NICsPerNode < 1:
		return fmt.Errorf("fabric %s: nodes, GPUs and NICs must be given", s.Name)
	case len(s.Hops) > 1<<16:
		return fmt.Errorf("fabric %s: %d ports and links, at most %d: fewer nodes or NICs", s.Name, len(s.Hops), 1<<16)
	case len(s.Config) > maxConfig:
		return fmt.Errorf("fabric %s: its description has %d bytes, at most %d", s.Name, len(s.Config), maxConfig)
	case len(s.Profile) >= nameSize:
		return fmt.Errorf("fabric %s: profile name %q is too long", s.Name, s.Profile)
	}
	for _, p := range s.Paths {
		if p.Src < 0 || p.Dst < 0 || p.Src >= nics || p.Dst >= nics || len(p.Hops) == 0 || len(p.Hops) > link.MaxHops {
			return fmt.Errorf("fabric %s: path %d to %d with %d hops: not possible", s.Name, p.Src, p.Dst, len(p.Hops))
		}
		for _, step := range p.Hops {
			if step.Hop < 0 || step.Hop >= len(s.Hops) {
				return fmt.Errorf("fabric %s: path %d to %d uses hop %d of %d", s.Name, p.Src, p.Dst, step.Hop, len(s.Hops))
			}
		}
	}
	return nil
}

// layout places the tables in the file.
func (s *Spec) layout() (*header, error) {
	k := int64(s.TimeScale)
	t := s.Transport
	h := &header{
		Magic: Magic, Version: Version, Layout: layoutSum,
		Created: Now(), FabricID: randomID(), Seed: s.Seed,
		TimeScale: uint32(s.TimeScale), Nodes: uint32(s.Nodes), GPUsPerNode: uint32(s.GPUsPerNode), NICsPerNode: uint32(s.NICsPerNode),
		Hops: uint32(len(s.Hops)), Blocks: uint32(2*len(s.Hops) + 64),
		Participants: maxParticipants, Events: maxEvents, ConfigLen: uint32(len(s.Config)),
		Transport: transportBlock{
			Kind: uint32(t.Kind), SendBuffer: t.SendBuffer, Window: t.Window,
			RTO: t.RTO * k, DownTimeout: t.DownTimeout * k, Overhead: t.Overhead * k, Gap: t.Gap * k,
		},
	}
	if t.SelectiveRepeat {
		h.Transport.SelectiveRepeat = 1
	}
	for _, hop := range s.Hops {
		if hop.Kind == Link {
			h.Links++
		}
	}
	h.Paths = uint32(s.Nodes * s.NICsPerNode * s.Nodes * s.NICsPerNode)
	h.Jobs = uint32(min(maxJobs, maxCells/max(cellSize*len(s.Hops), 1)))
	if h.Jobs == 0 {
		return nil, fmt.Errorf("fabric %s: counters for %d ports and links do not fit in %d MiB: fewer nodes or NICs", s.Name, len(s.Hops), maxCells>>20)
	}
	copy(h.Name[:], s.Name)
	copy(h.Profile[:], s.Profile)
	var err error
	if h.BootID, h.TimeNamespace, err = bootAndTime(); err != nil {
		return nil, err
	}
	off := uint64(page)
	place := func(size uintptr, n uint32) uint64 {
		at := off
		off = (off + uint64(size)*uint64(n) + page - 1) &^ (page - 1)
		return at
	}
	h.HopsOff = place(unsafe.Sizeof(Hop{}), h.Hops)
	h.PathsOff = place(unsafe.Sizeof(pathEntry{}), h.Paths)
	h.BlocksOff = place(unsafe.Sizeof(Block{}), h.Blocks)
	h.JobsOff = place(unsafe.Sizeof(jobEntry{}), h.Jobs)
	h.CellsOff = place(unsafe.Sizeof(Cell{}), h.Jobs*h.Hops)
	h.ParticipantsOff = place(unsafe.Sizeof(participantEntry{}), h.Participants)
	h.EventsOff = place(unsafe.Sizeof(eventEntry{}), h.Events)
	h.TablesOff = place(unsafe.Sizeof(link.JitterTable{}), 3)
	h.ConfigOff = place(1, h.ConfigLen)
	h.FileSize = off
	return h, nil
}

func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}
