// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// attach attaches each program to its interfaces.
func (p *Programs) attach() error {
	for _, n := range p.Plan.Nodes {
		for _, nic := range n.NICs {
			for _, a := range []struct {
				ns, dev string
				at      ebpf.AttachType
				prog    *ebpf.Program
			}{
				{n.Namespace, nic.Name, ebpf.AttachTCXEgress, p.objects.Tx},
				{n.Namespace, nic.Name, ebpf.AttachTCXIngress, p.objects.Arrive},
				{p.Plan.Switch, nic.Port, ebpf.AttachTCXIngress, p.objects.Forward},
				{p.Plan.Switch, nic.Port, ebpf.AttachTCXEgress, p.objects.Rx},
			} {
				if a.prog == nil {
					continue
				}
				if err := netns.Do(a.ns, func() error { return p.attachTo(a.dev, a.at, a.prog) }); err != nil {
					return fmt.Errorf("attach BPF to %s of %s: %w", a.dev, a.ns, err)
				}
			}
		}
	}
	return nil
}

// attachTo attaches a program to an interface in the thread's namespace.
func (p *Programs) attachTo(dev string, at ebpf.AttachType, prog *ebpf.Program) error {
	i, err := net.InterfaceByName(dev)
	if err != nil {
		return err
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: i.Index, Program: prog, Attach: at})
	if err == nil {
		p.attached = append(p.attached, l)
		return nil
	}
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	return attachClsact(i.Index, at, prog)
}

// attachClsact attaches a program by the qdisc clsact, for kernels before 6.6, which have no TCX. The program is
// detached when the interface is deleted.
func attachClsact(index int, at ebpf.AttachType, prog *ebpf.Program) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0),
		Parent: netlink.HANDLE_CLSACT}}
	if err := h.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make qdisc clsact: %w", err)
	}
	parent := uint32(netlink.HANDLE_MIN_EGRESS)
	if at == ebpf.AttachTCXIngress {
		parent = netlink.HANDLE_MIN_INGRESS
	}
	err = h.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Priority: 1,
			Protocol: unix.ETH_P_ALL},
		Fd: prog.FD(), Name: "ddlemu", DirectAction: true,
	})
	if err != nil {
		return fmt.Errorf("add a BPF filter: %w", err)
	}
	return nil
}
