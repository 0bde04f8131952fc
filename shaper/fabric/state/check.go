// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// check refuses the header of a file that this process cannot use. size is the size of the
// file. h is a copy, because NextEvent and Closed may change at any time.
func (h header) check(size uint64, uid uint32, boot [16]byte, ns uint64) error {
	switch {
	case h.Magic != Magic:
		return fmt.Errorf("%w: not a ddlemu fabric", ErrNotUsable)
	case h.Version != Version:
		return fmt.Errorf("%w: made by another version of ddlemu (format %d, this one has %d)", ErrNotUsable, h.Version,
			Version)
	case h.Layout != layoutSum:
		return fmt.Errorf("%w: made by another build of ddlemu, whose layout differs", ErrNotUsable)
	case h.FileSize != size:
		return fmt.Errorf("%w: truncated: %d bytes of %d", ErrNotUsable, size, h.FileSize)
	case h.UID != uid:
		return fmt.Errorf("%w: made for user %d, not %d", ErrNotUsable, h.UID, uid)
	case h.BootID != boot:
		return fmt.Errorf("%w: made before the last boot", ErrNotUsable)
	case h.TimeNamespace != ns:
		return fmt.Errorf("%w: made in another time namespace, whose clock differs", ErrNotUsable)
	case !h.plausible() || h.place() != h:
		return fmt.Errorf("%w: corrupt header", ErrNotUsable)
	}
	return nil
}

// Limits of a header's numbers. Together they keep the file below 2^34 bytes. 256 NICs of nodes with one each have
// 65 792 hops; the others are for links between switches.
const (
	maxNodes       = 1<<16 - 1
	maxNICsPerNode = 1<<8 - 1
	maxNICs        = 1 << 10
	maxHops        = 1 << 17
	maxSwitches    = 1 << 10

	// The largest values of link.NewHost, at the largest time scale.
	maxHostNs        = 8_000_000_000 * link.MaxTimeScale
	maxHostNsPerByte = maxHostNs / link.MinBandwidth
)

// endsExist reports whether there is a kind of hops like this, and a hop of it may be between src and dst, of so many
// NICs or GPUs.
func endsExist(kind link.HopKind, src, dst uint32, nics, gpus int) bool {
	most := nics
	switch {
	case !kind.Known():
		return false
	case kind == link.Trunk:
		most = maxSwitches
	case kind.IsWithinNode():
		most = gpus
	}
	return int(src) < most && int(dst) < most
}

// hasRows reports whether the header has as many statistics of nodes as Create writes.
func (h *header) hasRows() bool {
	if h.NodeTime.On == 0 || h.VirtualClock != 0 {
		return h.NodeRows == 0
	}
	return int(h.NodeRows) == NodeParts*h.gpus()
}

// plausible reports whether Create could have written the header.
func (h *header) plausible() bool {
	t := &h.Transport
	return h.Nodes >= 1 && h.Nodes <= maxNodes && h.NICsPerNode >= 1 && h.NICsPerNode <= maxNICsPerNode &&
		h.nics() <= maxNICs &&
		h.GPUsPerNode <= maxNodes && h.TimeScale >= 1 && h.TimeScale <= link.MaxTimeScale &&
		h.Hops <= maxHops && h.Links <= h.Hops && h.Planned <= link.MaxPlannedChanges &&
		h.Blocks == blocksFor(int(h.Hops), int(h.Planned)) &&
		(h.Planned == 0 || h.VirtualClock != 0) &&
		int(h.Paths) == h.nics()*h.nics() &&
		h.FlowPaths <= 1 && h.VirtualClock <= 1 && (h.VirtualClock == 0 || h.TimeScale == 1 && h.Snapshots == 0) &&
		h.hasRows() && h.Jobs == jobsFor(int(h.Hops+h.NodeRows), h.Snapshots > 0) &&
		(h.Snapshots == 0 || h.Snapshots == snapshotsFor(h.Jobs, h.Hops)) &&
		h.Participants == maxParticipants && h.Events == maxEvents && h.ConfigLen <= maxConfig &&
		bytes.IndexByte(h.GPU.Name[:], 0) >= 0 && bytes.IndexByte(h.GPU.Product[:], 0) >= 0 && h.GPU.Switched <= 1 &&
		h.NodeTime.plausible(int(h.Nodes), int(h.GPUsPerNode), int(h.Hops)) &&
		bytes.IndexByte(h.Name[:], 0) > 0 && bytes.IndexByte(h.Profile[:], 0) >= 0 &&
		t.Kind <= link.RDMA && t.Congestion <= link.Cubic && t.Second >= 0 &&
		t.Second <= int64(time.Second)*link.MaxTimeScale &&
		t.RTO >= 0 && t.DownTimeout >= 0 && t.Overhead >= 0 && t.Gap >= 0 &&
		t.Host.PerMessage >= 0 && t.Host.NsNum <= maxHostNs && (t.Host.NsDen > 0 || t.Host.NsNum == 0) &&
		t.Host.NsNum/max(t.Host.NsDen, 1) <= maxHostNsPerByte
}

// checkContent checks the tables that do not change, and the parameters in force. The
// methods of File are safe with any content of the other tables.
func (f *File) checkContent() error {
	h := f.head()
	for i := range f.hops() {
		hop := &f.hops()[i]
		if hop.ID != uint32(i) || !endsExist(hop.Kind, hop.Src, hop.Dst, h.nics(), h.gpus()) {
			return fmt.Errorf("%w: corrupt: hop %d", ErrNotUsable, i)
		}
		b, _, ok := f.inForce(hop)
		want, err := link.NewBlock(b.Stated, int(h.TimeScale))
		if !ok || err != nil || b.Params != want.Params {
			return fmt.Errorf("%w: corrupt: parameters of hop %d", ErrNotUsable, i)
		}
	}
	for i := range f.pathTable() {
		e := &f.pathTable()[i]
		for k, hop := range e.Hops {
			if int(e.N) > len(e.Hops) || k < int(e.N) && int(hop) >= len(f.hops()) {
				return fmt.Errorf("%w: corrupt: path %d", ErrNotUsable, i)
			}
		}
	}
	return nil
}

// bootAndTime identifies the clock of this process: the boot, and the time namespace, 0 if the kernel has none.
func bootAndTime() (boot [16]byte, ns uint64, err error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return boot, 0, fmt.Errorf("read this boot's id: %w", err)
	}
	text := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	if n, err := hex.Decode(boot[:], []byte(text)[:min(len(text), 2*len(boot))]); err != nil || n != len(boot) {
		return boot, 0, fmt.Errorf("read this boot's id: %q is not an id", text)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/time", &st); err != nil {
		return boot, 0, nil // a kernel without time namespaces has one clock
	}
	return boot, st.Ino, nil
}
