// SPDX-License-Identifier: Apache-2.0

// Package probe finds what shaping this kernel can do, by trying it in a network
// namespace of its own, which is gone afterwards.
package probe

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNotThere says that a part is not in this kernel.
var ErrNotThere = errors.New("not in this kernel")

// Part is a part of the kernel and what trying it gave: nil if it is there,
// ErrNotThere if not, anything else leaves it open.
type Part struct {
	Name string
	Err  error
}

// Qdiscs tries each queueing discipline on a pair of interfaces. The error says why
// there was no such place.
func Qdiscs() ([]Part, error) {
	type result struct {
		all []Part
		err error
	}
	done := make(chan result)
	go func() {
		// Not unlocked: the thread has left its namespace, and ends with the goroutine.
		runtime.LockOSThread()
		all, err := tryQdiscs()
		done <- result{all, err}
	}()
	r := <-done
	return r.all, r.err
}

func tryQdiscs() ([]Part, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE) // other families may not be there
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}); err != nil {
		return nil, fmt.Errorf("make a veth pair: %w", err)
	}
	dev, err := h.LinkByName("probe0")
	if err != nil {
		return nil, fmt.Errorf("find the veth pair: %w", err)
	}
	at := func(parent uint32) netlink.QdiscAttrs {
		return netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: parent}
	}
	root := at(netlink.HANDLE_ROOT)
	clsact := at(netlink.HANDLE_CLSACT)
	clsact.Handle = netlink.MakeHandle(0xffff, 0)
	var all []Part
	for _, q := range []netlink.Qdisc{
		netlink.NewNetem(root, netlink.NetemQdiscAttrs{Latency: 1000, Limit: 1000}),
		netlink.NewFq(root),
		&netlink.Tbf{QdiscAttrs: root, Rate: 125_000_000, Limit: 1 << 20, Buffer: netlink.Xmittime(125_000_000, 64<<10)},
		netlink.NewHtb(root),
		&netlink.Clsact{QdiscAttrs: clsact},
	} {
		err := h.QdiscAdd(q)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			err = ErrNotThere
		}
		all = append(all, Part{q.Type(), err})
		if err == nil {
			if err := h.QdiscDel(q); err != nil {
				return nil, fmt.Errorf("remove qdisc %s again: %w", q.Type(), err)
			}
		}
	}
	return all, nil
}

// Parts is what Kernel found.
type Parts []Part

// Kernel tries all that a shaper may need.
func Kernel() Parts {
	all, err := Qdiscs()
	if err != nil {
		return Parts{{"qdiscs", err}}
	}
	return all
}

// Has is nil if a part is there, and otherwise says why not.
func (all Parts) Has(name string) error {
	for _, p := range all {
		if p.Name == name {
			return p.Err
		}
	}
	if len(all) == 1 && all[0].Err != nil {
		return all[0].Err // nothing could be tried
	}
	return ErrNotThere
}
