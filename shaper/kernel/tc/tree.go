// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// Handles of a tree: the qdisc, the class of the port's whole rate, that of what no
// NIC's class takes (broadcasts of a sender), and the classes of NICs from firstLeaf on.
const (
	root      = 1 << 16
	whole     = root | 1
	rest      = root | 2
	firstLeaf = root | 0x10
)

// match chooses a leaf by the NIC number in a MAC address, see plan: a word of the
// frame, counted from the network header, and where the number is in it.
type match struct {
	offset int32
	mask   uint32
	shift  int
}

var (
	byDestination = match{offset: -12, mask: 0x0000ffff}           // the last four bytes of it
	bySource      = match{offset: -4, mask: 0xffff0000, shift: 16} // the last two, and the type
)

// tree is an HTB at one interface. Its methods are called by one goroutine.
type tree struct {
	ns, dev string
	by      match

	index   int
	classes map[uint32]classRate
	queues  map[uint32]string
	seen    map[uint32]tally
}

type classRate struct{ rate, ceil uint64 }

// leaf is what one NIC's packets get.
type leaf struct {
	nic   int
	ceil  uint64 // bytes per second at most
	queue qdisc
}

// shape is all that a tree is asked for. Leaves share rate equally.
type shape struct {
	rate    uint64 // bytes per second
	mtu     uint32
	quantum uint32 // bytes that a leaf sends in its turn
	leaves  []leaf
	rest    qdisc // queue of what no leaf takes
}

func newTree(ns, dev string, by match) *tree {
	return &tree{ns: ns, dev: dev, by: by, classes: map[uint32]classRate{}, queues: map[uint32]string{}, seen: map[uint32]tally{}}
}

// apply makes the tree, or changes what is different now. Each class changes at once.
func (t *tree) apply(s shape) error {
	err := netns.Do(t.ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer h.Close()
		return t.put(h, s)
	})
	if err != nil {
		return fmt.Errorf("shape %s of %s: %w", t.dev, t.ns, err)
	}
	return nil
}

func (t *tree) put(h *netlink.Handle, s shape) error {
	if t.index == 0 {
		if err := t.begin(h); err != nil {
			return err
		}
	}
	share := max(s.rate/uint64(len(s.leaves)+1), 1)
	if err := t.class(h, root, whole, classRate{s.rate, s.rate}, s); err != nil {
		return err
	}
	if err := t.leaf(h, rest, classRate{share, s.rate}, s.rest, s); err != nil {
		return err
	}
	for _, l := range s.leaves {
		ceil := min(l.ceil, s.rate)
		handle := uint32(firstLeaf + l.nic)
		isNew := t.classes[handle].ceil == 0
		if err := t.leaf(h, handle, classRate{min(share, ceil), ceil}, l.queue, s); err != nil {
			return err
		}
		if isNew {
			if err := t.choose(h, l.nic, handle); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin makes the tree's qdisc.
func (t *tree) begin(h *netlink.Handle) error {
	l, err := h.LinkByName(t.dev)
	if err != nil {
		return fmt.Errorf("find it: %w", err)
	}
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: root, Parent: netlink.HANDLE_ROOT})
	htb.Defcls = rest & 0xffff
	if err := h.QdiscAdd(htb); err != nil {
		return fmt.Errorf("make qdisc htb: %w", err)
	}
	t.index = l.Attrs().Index
	return nil
}

// leaf puts a class with a queue of its own into force.
func (t *tree) leaf(h *netlink.Handle, handle uint32, r classRate, q qdisc, s shape) error {
	if err := t.class(h, whole, handle, r, s); err != nil {
		return err
	}
	want := q.kind + string(q.options)
	if t.queues[handle] == want {
		return nil
	}
	if err := q.set(t.index, handle, handle<<16, t.queues[handle] != ""); err != nil {
		return err
	}
	t.queues[handle] = want
	return nil
}

func (t *tree) class(h *netlink.Handle, parent, handle uint32, r classRate, s shape) error {
	if t.classes[handle] == r {
		return nil
	}
	c := htbClass(t.index, parent, handle, r.rate, r.ceil, s.mtu, s.quantum)
	put := h.ClassAdd
	if t.classes[handle].ceil != 0 {
		put = h.ClassChange
	}
	if err := put(c); err != nil {
		return fmt.Errorf("put class %s into force: %w", netlink.HandleStr(handle), err)
	}
	t.classes[handle] = r
	return nil
}

// choose makes what is from or for a NIC go to its class.
func (t *tree) choose(h *netlink.Handle, nic int, handle uint32) error {
	err := h.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: t.index, Parent: root, Priority: 1, Protocol: unix.ETH_P_ALL},
		ClassId:     handle,
		Sel: &netlink.TcU32Sel{Flags: netlink.TC_U32_TERMINAL, Keys: []netlink.TcU32Key{
			{Off: t.by.offset, Mask: t.by.mask, Val: uint32(nic) << t.by.shift},
		}},
	})
	if err != nil {
		return fmt.Errorf("make a filter for NIC %d: %w", nic, err)
	}
	return nil
}

// tally is what a class has carried, in frames with their Ethernet headers.
type tally struct {
	bytes   uint64
	packets uint32
	drops   uint32
}

// count calls add with what each class has carried since the last count.
func (t *tree) count(add func(handle uint32, bytes, packets, drops uint64)) error {
	var all []netlink.Class
	err := netns.Do(t.ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := h.LinkByIndex(t.index)
		if err != nil {
			return err
		}
		// What is changed meanwhile is counted the next time.
		if all, err = h.ClassList(l, netlink.HANDLE_NONE); errors.Is(err, netlink.ErrDumpInterrupted) {
			err = nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("count at %s of %s: %w", t.dev, t.ns, err)
	}
	for _, c := range all {
		a := c.Attrs()
		if a.Handle>>16 != root>>16 || a.Statistics == nil || a.Statistics.Basic == nil || a.Statistics.Queue == nil {
			continue
		}
		now := tally{a.Statistics.Basic.Bytes, a.Statistics.Basic.Packets, a.Statistics.Queue.Drops}
		was := t.seen[a.Handle]
		t.seen[a.Handle] = now
		// The kernel's 32 bits may have gone round.
		if now != was {
			add(a.Handle, now.bytes-was.bytes, uint64(now.packets-was.packets), uint64(now.drops-was.drops))
		}
	}
	return nil
}
