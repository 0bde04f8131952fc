// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/internal/bpf"
)

// ErrNotSupported says that this kernel does not have a feature.
var ErrNotSupported = errors.New("not in this kernel")

// ErrNotProbed says that features could not be probed.
var ErrNotProbed = errors.New("cannot be tried here")

// Names of features that are not qdiscs. A qdisc's feature is named like the qdisc.
const (
	BPF            = "BPF at interfaces"
	DepartureTimes = "BPF departure times"
)

// features are the probed features of the kernel, in the order of `ddlemu doctor`. A probe uses the feature on an
// interface in the thread's namespace.
var features = []struct {
	name  string
	probe func(h *netlink.Handle, dev netlink.Link) error
}{
	{"netem", probeQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return netlink.NewNetem(a, netlink.NetemQdiscAttrs{Latency: 1000, Limit: 1000})
	})},
	{"fq", probeQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc { return netlink.NewFq(a) })},
	{"tbf", probeQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return &netlink.Tbf{QdiscAttrs: a, Rate: 125_000_000, Limit: 1 << 20,
			Buffer: netlink.Xmittime(125_000_000, 64<<10)}
	})},
	{"htb", probeQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc { return netlink.NewHtb(a) })},
	{"clsact", probeQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc {
		a.Handle, a.Parent = netlink.MakeHandle(0xffff, 0), netlink.HANDLE_CLSACT
		return &netlink.Clsact{QdiscAttrs: a}
	})},
	{BPF, func(_ *netlink.Handle, dev netlink.Link) error { return bpf.Try(dev.Attrs().Name, false) }},
	{DepartureTimes, func(_ *netlink.Handle, dev netlink.Link) error { return bpf.Try(dev.Attrs().Name, true) }},
}

// probeQdisc returns a probe that adds a qdisc as the root of an interface.
func probeQdisc(make func(netlink.QdiscAttrs) netlink.Qdisc) func(*netlink.Handle, netlink.Link) error {
	return func(h *netlink.Handle, dev netlink.Link) error {
		q := make(netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT})
		err := h.QdiscAdd(q)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			return ErrNotSupported
		}
		return err
	}
}

// Kernel caches the results of probes. The zero value probes this kernel. Not safe for concurrent use.
type Kernel struct {
	results map[string]error
}

// KnownKernel returns a Kernel that probes nothing: it has all features except those in errs.
func KnownKernel(errs map[string]error) *Kernel {
	k := &Kernel{results: map[string]error{}}
	for _, f := range features {
		k.results[f.name] = errs[f.name]
	}
	return k
}

// Probe returns nil if the kernel has the feature called name. The error wraps ErrNotSupported if it does not, and
// ErrNotProbed if that could not be tried. Any other error leaves it open.
func (k *Kernel) Probe(name string) error {
	err, ok := k.results[name]
	if ok {
		return err
	}
	if k.results == nil {
		k.results = map[string]error{}
	}
	k.results[name] = probe(name)
	return k.results[name]
}

// Feature is a feature of the kernel and the result of its probe.
type Feature struct {
	Name string
	Err  error // see Kernel.Probe
}

// Features probes all features.
func (k *Kernel) Features() []Feature {
	var all []Feature
	for _, f := range features {
		all = append(all, Feature{f.name, k.Probe(f.name)})
	}
	return all
}

// probe probes a feature in a network namespace of its own.
func probe(name string) error {
	for _, f := range features {
		if f.name != name {
			continue
		}
		done := make(chan error)
		go func() {
			// Never unlocked: the thread is in another namespace, and ends with the goroutine.
			runtime.LockOSThread()
			done <- inNewNamespace(f.probe)
		}()
		return <-done
	}
	return fmt.Errorf("%s: %w", name, ErrNotSupported)
}

// inNewNamespace moves the thread to a new network namespace and runs a probe on a veth interface there.
func inNewNamespace(probe func(*netlink.Handle, netlink.Link) error) error {
	fail := func(what string, err error) error { return fmt.Errorf("%w: %s: %w", ErrNotProbed, what, err) }
	ns, err := netns.New()
	if err != nil {
		return fail("make a network namespace", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE) // some kernels lack the other families
	if err != nil {
		return fail("open netlink", err)
	}
	defer h.Close()
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}); err != nil {
		return fail("make a veth pair", err)
	}
	dev, err := h.LinkByName("probe0")
	if err != nil {
		return fail("find the veth pair", err)
	}
	return probe(h, dev)
}
