// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// probeQdiscs tries each queueing discipline on a pair of interfaces in a network
// namespace of its own. The error says why there was no such place.
func probeQdiscs() ([]feature, error) {
	type result struct {
		all []feature
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

func tryQdiscs() ([]feature, error) {
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
	var all []feature
	for _, q := range []netlink.Qdisc{
		netlink.NewNetem(root, netlink.NetemQdiscAttrs{Latency: 1000, Limit: 1000}),
		netlink.NewFq(root),
		&netlink.Tbf{QdiscAttrs: root, Rate: 125_000_000, Limit: 1 << 20, Buffer: netlink.Xmittime(125_000_000, 64<<10)},
		netlink.NewHtb(root),
		&netlink.Clsact{QdiscAttrs: clsact},
	} {
		err := h.QdiscAdd(q)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			err = errNotThere
		}
		all = append(all, feature{q.Type(), err})
		if err == nil {
			if err := h.QdiscDel(q); err != nil {
				return nil, fmt.Errorf("remove qdisc %s again: %w", q.Type(), err)
			}
		}
	}
	return all, nil
}
