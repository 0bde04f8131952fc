// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Handles of a tree. The port class limits the rate of the port. Below it, NIC n has class firstLeaf+n. Packets that no
// filter selects, such as a sender's broadcasts, are in the default class.
const (
	rootHandle   = 1 << 16
	portClass    = rootHandle | 1
	defaultClass = rootHandle | 2
	firstLeaf    = rootHandle | 0x10
)

// match selects packets by the NIC number in a MAC address (see netns.NICOfMAC): a 32-bit word at an offset from the
// network header, and the bits of the number in it.
type match struct {
	offset int32
	mask   uint32
	shift  int
}

var (
	byDestination = match{offset: -12, mask: 0x0000ffff} // the last 4 bytes of the destination address
	// the last 2 bytes of the source address, and the type
	bySource = match{offset: -4, mask: 0xffff0000, shift: 16}
)

// tree is an HTB on one interface. Its methods are called by one goroutine.
type tree struct {
	namespace, device string
	match             match

	index   int // of the interface; 0 before the first apply
	classes map[uint32]classRate
	queues  map[uint32]string // options of each leaf's queue
	counted map[uint32]tally  // counters at the last count
}

// classRate has the guaranteed and the maximum rate of a class, in bytes per second.
type classRate struct{ rate, ceil uint64 }

// leaf is the class of one NIC's packets.
type leaf struct {
	nic   int
	ceil  uint64 // maximum rate, in bytes per second
	queue qdisc
}

// treeSpec specifies a tree. The leaves share the rate equally.
type treeSpec struct {
	rate         uint64 // bytes per second
	mtu          uint32
	quantum      uint32 // bytes that a leaf sends per round
	leaves       []leaf
	defaultQueue qdisc // of the default class
}

func newTree(namespace, device string, by match) *tree {
	return &tree{
		namespace: namespace, device: device, match: by,
		classes: map[uint32]classRate{}, queues: map[uint32]string{}, counted: map[uint32]tally{},
	}
}

// apply creates the tree, or changes what differs from s. Each class is changed atomically.
func (t *tree) apply(s treeSpec) error {
	err := netns.Do(t.namespace, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer h.Close()
		return t.applyIn(h, s)
	})
	if err != nil {
		return fmt.Errorf("shape %s of %s: %w", t.device, t.namespace, err)
	}
	return nil
}

// applyIn is apply on a thread in the tree's namespace.
func (t *tree) applyIn(h *netlink.Handle, s treeSpec) error {
	if t.index == 0 {
		if err := t.addQdisc(h); err != nil {
			return err
		}
	}
	share := max(s.rate/uint64(len(s.leaves)+1), 1)
	if err := t.setClass(h, rootHandle, portClass, classRate{s.rate, s.rate}, s); err != nil {
		return err
	}
	if err := t.setLeaf(h, defaultClass, classRate{share, s.rate}, s.defaultQueue, s); err != nil {
		return err
	}
	for _, l := range s.leaves {
		ceil := min(l.ceil, s.rate)
		handle := uint32(firstLeaf + l.nic)
		isNew := t.classes[handle].ceil == 0
		if err := t.setLeaf(h, handle, classRate{min(share, ceil), ceil}, l.queue, s); err != nil {
			return err
		}
		if isNew {
			if err := t.addFilter(h, l.nic, handle); err != nil {
				return err
			}
		}
	}
	return nil
}

// addQdisc adds the HTB to the interface.
func (t *tree) addQdisc(h *netlink.Handle) error {
	l, err := h.LinkByName(t.device)
	if err != nil {
		return fmt.Errorf("find it: %w", err)
	}
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: rootHandle,
		Parent: netlink.HANDLE_ROOT})
	htb.Defcls = defaultClass & 0xffff
	if err := h.QdiscAdd(htb); err != nil {
		return fmt.Errorf("make qdisc htb: %w", err)
	}
	t.index = l.Attrs().Index
	return nil
}

// setLeaf creates or changes a class and its queue.
func (t *tree) setLeaf(h *netlink.Handle, handle uint32, r classRate, q qdisc, s treeSpec) error {
	if err := t.setClass(h, portClass, handle, r, s); err != nil {
		return err
	}
	options := q.kind + string(q.options)
	if t.queues[handle] == options {
		return nil
	}
	if err := q.set(t.index, handle, handle<<16, t.queues[handle] != ""); err != nil {
		return err
	}
	t.queues[handle] = options
	return nil
}

// setClass creates or changes a class.
func (t *tree) setClass(h *netlink.Handle, parent, handle uint32, r classRate, s treeSpec) error {
	if t.classes[handle] == r {
		return nil
	}
	set := h.ClassAdd
	if t.classes[handle].ceil != 0 {
		set = h.ClassChange
	}
	if err := set(htbClass(t.index, parent, handle, r.rate, r.ceil, s.mtu, s.quantum)); err != nil {
		return fmt.Errorf("set class %s: %w", netlink.HandleStr(handle), err)
	}
	t.classes[handle] = r
	return nil
}

// addFilter adds a filter that sends the packets from or to a NIC to its class.
func (t *tree) addFilter(h *netlink.Handle, nic int, handle uint32) error {
	err := h.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: t.index, Parent: rootHandle, Priority: 1, Protocol: unix.ETH_P_ALL},
		ClassId:     handle,
		Sel: &netlink.TcU32Sel{Flags: netlink.TC_U32_TERMINAL, Keys: []netlink.TcU32Key{
			{Off: t.match.offset, Mask: t.match.mask, Val: uint32(nic) << t.match.shift},
		}},
	})
	if err != nil {
		return fmt.Errorf("add a filter for NIC %d: %w", nic, err)
	}
	return nil
}

// tally has the counters of a class. Frames are counted with their Ethernet headers.
type tally struct {
	bytes   uint64
	packets uint32
	drops   uint32
}

// count calls add with what each class has counted since the last call of count.
func (t *tree) count(add func(handle uint32, bytes, packets, drops uint64)) error {
	h, err := nodes.OpenNetlink(t.namespace)
	if err != nil {
		return fmt.Errorf("count on %s: %w", t.device, err)
	}
	defer h.Close()
	l, err := h.LinkByIndex(t.index)
	if err != nil {
		return fmt.Errorf("count on %s of %s: %w", t.device, t.namespace, err)
	}
	// If a class changes meanwhile, the kernel interrupts the list. The next call counts the rest.
	all, err := h.ClassList(l, netlink.HANDLE_NONE)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("count on %s of %s: %w", t.device, t.namespace, err)
	}
	for _, c := range all {
		a := c.Attrs()
		if a.Handle>>16 != rootHandle>>16 || a.Statistics == nil || a.Statistics.Basic == nil ||
			a.Statistics.Queue == nil {
			continue
		}
		now := tally{a.Statistics.Basic.Bytes, a.Statistics.Basic.Packets, a.Statistics.Queue.Drops}
		before := t.counted[a.Handle]
		t.counted[a.Handle] = now
		// The differences are right even if the kernel's 32-bit counters have wrapped.
		if now != before {
			add(a.Handle, now.bytes-before.bytes, uint64(now.packets-before.packets), uint64(now.drops-before.drops))
		}
	}
	return nil
}
