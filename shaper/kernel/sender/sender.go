// SPDX-License-Identifier: Apache-2.0

// Package sender limits what a NIC sends before a delay line sees it, by HTB in the
// node: what does not fit waits where its senders notice.
package sender

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
)

// Shares is how a NIC's sending is limited before the link model sees it: what does
// not fit waits in the node, where its senders notice (TCP small queues, socket
// buffers), and not in the emulated port.
type Shares struct {
	Rate   uint64         // line rate of the port, bit/s of bytes on the wire; 0 = unlimited
	Full   uint32         // bytes of a full packet on the wire
	Packet uint32         // of these, the bytes that the kernel counts: IP packet and Ethernet header
	To     map[int]uint64 // line rate of the way to each other NIC, by its number; 0 = that of the port
}

const (
	// senderMargin is the part of the rate that senders are kept below it, in 1/1000:
	// so that the emulated port itself hardly has a queue.
	senderMargin = 2
	// senderBurst is the time of sending at the rate that may come at once, in us: a
	// timer of the kernel is late by 20 to 60 us, and then some.
	senderBurst = 400
	// leastBurst holds one large packet.
	leastBurst = 64<<10 + 1<<10
)

// Handles of the qdisc and of its classes: one for all, and one for each NIC.
const (
	senderQdisc = 1 << 16
	senderRoot  = senderQdisc | 1
	senderFirst = senderQdisc | 0x10
)

// Limit limits what nic sends to s, or changes the limits that an earlier call made.
// h is in the node's namespace. All destinations that are busy at once get equal
// shares of the rate. What is not for one of them, such as ARP, is not limited.
func Limit(h *netlink.Handle, nic plan.NIC, s Shares) error {
	l, err := h.LinkByName(nic.Name)
	if err != nil {
		return fmt.Errorf("find %s: %w", nic.Name, err)
	}
	index := l.Attrs().Index
	there, err := isLimited(h, l)
	if err != nil {
		return err
	}
	qdisc := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: senderQdisc, Parent: netlink.HANDLE_ROOT})
	switch {
	case s.Rate == 0 && there:
		if err := h.QdiscDel(qdisc); err != nil {
			return fmt.Errorf("remove the htb qdisc of %s: %w", nic.Name, err)
		}
		return nil
	case s.Rate == 0:
		return nil
	case !there:
		if err := h.QdiscAdd(qdisc); err != nil {
			return fmt.Errorf("add an htb qdisc to %s: %w", nic.Name, err)
		}
	}
	if err := h.ClassReplace(s.class(index, senderQdisc, senderRoot, s.Rate, s.Rate)); err != nil {
		return fmt.Errorf("add a class to the htb qdisc of %s: %w", nic.Name, err)
	}
	for to, rate := range s.To {
		if rate == 0 || rate > s.Rate {
			rate = s.Rate
		}
		share := min(s.Rate/uint64(len(s.To)), rate)
		if err := h.ClassReplace(s.class(index, senderRoot, senderFirst+uint32(to), share, rate)); err != nil {
			return fmt.Errorf("add a class to the htb qdisc of %s: %w", nic.Name, err)
		}
	}
	if there {
		return nil
	}
	return addClassifier(h, index)
}

// isLimited says whether Limit has made its qdisc on l.
func isLimited(h *netlink.Handle, l netlink.Link) (bool, error) {
	all, err := h.QdiscList(l)
	if err != nil {
		return false, fmt.Errorf("list the qdiscs of %s: %w", l.Attrs().Name, err)
	}
	for _, q := range all {
		if q.Attrs().Handle == senderQdisc && q.Type() == "htb" {
			return true, nil
		}
	}
	return false, nil
}

// class is a class with a rate of its own and a limit to what it may borrow, both in
// bit/s on the wire.
func (s *Shares) class(index int, parent, handle uint32, rate, ceil uint64) *netlink.HtbClass {
	rate, ceil = s.counted(rate), s.counted(ceil)
	return netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: index, Parent: parent, Handle: handle}, netlink.HtbClassAttrs{
		Rate: rate, Ceil: ceil, Buffer: burst(rate), Cbuffer: burst(ceil), Quantum: leastBurst,
	})
}

// counted is the rate in what the kernel counts of packets, for a rate on the wire: it
// knows no framing.
func (s *Shares) counted(rate uint64) uint64 {
	r := float64(rate) * float64(s.Packet) / float64(s.Full) * (1 - senderMargin/1000.0)
	bits := max(uint64(r), 8)
	if bits/8%(1<<32) == 0 { // the kernel's 32-bit field would be 0, which it refuses
		bits -= 8
	}
	return bits
}

// burst is the bytes that may come at once at a rate in bit/s.
func burst(rate uint64) uint32 {
	return uint32(max(rate/8*senderBurst/1_000_000, leastBurst))
}

// addClassifier puts each packet into the class of the NIC that its Ethernet address
// says it is for (see plan.NICOf), whatever the protocol.
func addClassifier(h *netlink.Handle, index int) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "ddlemu_nic", Type: ebpf.SchedCLS, License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadAbs(0, asm.Byte),
			asm.And.Imm(asm.R0, 1),
			asm.JNE.Imm(asm.R0, 0, "multicast"),
			asm.LoadAbs(4, asm.Half),
			asm.Add.Imm(asm.R0, senderFirst),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("multicast"), // no class
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("load the program that finds a packet's class: %w", err)
	}
	defer prog.Close()
	err = h.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: senderQdisc, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          prog.FD(), Name: "ddlemu_nic",
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("add a bpf filter: this kernel lacks cls_bpf: %w", err)
	}
	if err != nil {
		return fmt.Errorf("add a bpf filter: %w", err)
	}
	return nil
}
