// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/bpf"
)

// ErrNotSupported says that a part is not in this kernel.
var ErrNotSupported = errors.New("not in this kernel")

// ErrNotProbed says that nothing could be tried.
var ErrNotProbed = errors.New("no place to try it")

// Parts of the kernel that are not qdiscs, as Has names them. A qdisc has its own name.
const (
	BPF            = "BPF at interfaces"
	DepartureTimes = "BPF departure times"
)

// parts are the parts of the kernel, in the order in which they are shown, and how to
// try each at an interface of the namespace that the thread is in.
var parts = []struct {
	name string
	try  func(h *netlink.Handle, dev netlink.Link) error
}{
	{"netem", root(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return netlink.NewNetem(a, netlink.NetemQdiscAttrs{Latency: 1000, Limit: 1000})
	})},
	{"fq", root(func(a netlink.QdiscAttrs) netlink.Qdisc { return netlink.NewFq(a) })},
	{"tbf", root(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return &netlink.Tbf{QdiscAttrs: a, Rate: 125_000_000, Limit: 1 << 20, Buffer: netlink.Xmittime(125_000_000, 64<<10)}
	})},
	{"htb", root(func(a netlink.QdiscAttrs) netlink.Qdisc { return netlink.NewHtb(a) })},
	{"clsact", root(func(a netlink.QdiscAttrs) netlink.Qdisc {
		a.Handle, a.Parent = netlink.MakeHandle(0xffff, 0), netlink.HANDLE_CLSACT
		return &netlink.Clsact{QdiscAttrs: a}
	})},
	{BPF, func(_ *netlink.Handle, dev netlink.Link) error { return bpf.Try(dev.Attrs().Name, false) }},
	{DepartureTimes, func(_ *netlink.Handle, dev netlink.Link) error { return bpf.Try(dev.Attrs().Name, true) }},
}

// root tries a qdisc.
func root(make func(netlink.QdiscAttrs) netlink.Qdisc) func(*netlink.Handle, netlink.Link) error {
	return func(h *netlink.Handle, dev netlink.Link) error {
		q := make(netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
		err := h.QdiscAdd(q)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			return ErrNotSupported
		}
		return err
	}
}

// Kernel is what has been found of a kernel. The zero value knows nothing and tries
// what it is asked for. Not safe for concurrent use.
type Kernel struct {
	known map[string]error
}

// KnownKernel is a kernel of which everything is known: parts that are not in m are there.
func KnownKernel(m map[string]error) *Kernel {
	k := &Kernel{known: map[string]error{}}
	for _, p := range parts {
		k.known[p.name] = m[p.name]
	}
	return k
}

// Has is nil if a part is there, wraps ErrNotSupported if not, and ErrNotProbed if it could
// not be tried. Anything else leaves it open.
func (k *Kernel) Probe(name string) error {
	err, ok := k.known[name]
	if ok {
		return err
	}
	if k.known == nil {
		k.known = map[string]error{}
	}
	k.known[name] = attempt(name)
	return k.known[name]
}

// Feature is a part of the kernel and what Has says of it.
type Feature struct {
	Name string
	Err  error
}

// All is every part, tried.
func (k *Kernel) Features() []Feature {
	var all []Feature
	for _, p := range parts {
		all = append(all, Feature{p.name, k.Probe(p.name)})
	}
	return all
}

// attempt tries a part.
func attempt(name string) error {
	for _, p := range parts {
		if p.name != name {
			continue
		}
		done := make(chan error)
		go func() {
			// Not unlocked: the thread has left its namespace, and ends with the goroutine.
			runtime.LockOSThread()
			done <- elsewhere(p.try)
		}()
		return <-done
	}
	return fmt.Errorf("%s: %w", name, ErrNotSupported)
}

// elsewhere moves the thread into a namespace of its own and tries something there.
func elsewhere(try func(*netlink.Handle, netlink.Link) error) error {
	place := func(what string, err error) error { return fmt.Errorf("%w: %s: %w", ErrNotProbed, what, err) }
	ns, err := netns.New()
	if err != nil {
		return place("make a network namespace", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE) // other families may not be there
	if err != nil {
		return place("open netlink", err)
	}
	defer h.Close()
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}); err != nil {
		return place("make a veth pair", err)
	}
	dev, err := h.LinkByName("probe0")
	if err != nil {
		return place("find the veth pair", err)
	}
	return try(h, dev)
}
