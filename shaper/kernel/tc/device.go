// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Handles of the qdiscs and the class that Device adds to an interface. The number identifies them as ddlemu's.
const (
	deviceRoot  = 0xdd1e << 16
	deviceClass = deviceRoot | 1
	deviceLeaf  = 0xdd1f << 16
)

// Device is an existing interface, in the namespace of the caller's thread. Only the packets that it sends are shaped.
type Device struct {
	handle *netlink.Handle
	link   netlink.Link
}

// OpenDevice finds the interface called name. If there is none, the error wraps ErrUnavailable. The caller closes the
// Device.
func OpenDevice(name string) (*Device, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	l, err := h.LinkByName(name)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("%w: interface %s: %w", ErrUnavailable, name, err)
	}
	return &Device{h, l}, nil
}

// Close releases the Device. The interface does not change.
func (d *Device) Close() { d.handle.Close() }

// MTU returns the interface's MTU in bytes.
func (d *Device) MTU() int { return d.link.Attrs().MTU }

// errForeign says that another program has configured the interface's queueing discipline.
var errForeign = errors.New("another program has set its queueing discipline")

// Shaped reports whether the interface has the qdiscs of Shape. If it has the qdisc of another program, the error wraps
// ErrUnavailable.
func (d *Device) Shaped() (bool, error) {
	all, err := d.handle.QdiscList(d.link)
	if err != nil {
		return false, fmt.Errorf("list the qdiscs of %s: %w", d.link.Attrs().Name, err)
	}
	for _, q := range all {
		a := q.Attrs()
		switch {
		case a.Parent != netlink.HANDLE_ROOT || a.Handle == 0: // the kernel's default qdiscs have no handle
		case a.Handle == deviceRoot:
			return true, nil
		default:
			return false, fmt.Errorf("%w: %s: %w, %s %s: remove that first (tc qdisc del dev %[2]s root)",
				ErrUnavailable, d.link.Attrs().Name, errForeign, q.Type(), netlink.HandleStr(a.Handle))
		}
	}
	return false, nil
}

// Shape gives the packets that the interface sends the rate of s and, if this kernel has netem, its latency, jitter and
// loss. It changes nothing else of the interface. Restore undoes it.
func (d *Device) Shape(s link.Spec, hasNetem bool, tables *link.JitterTables) error {
	queue, err := deviceQueue(s, hasNetem, tables)
	if err != nil {
		return err
	}
	rate, err := frameRate(s, 1)
	if err != nil {
		return err
	}
	shaped, err := d.Shaped()
	if err != nil {
		return err
	}
	if shaped {
		// The kind of the queue may change, so the qdiscs are replaced. Queued packets are lost.
		if err := d.Restore(); err != nil {
			return err
		}
	}
	if err := d.add(rate, s.MTU, queue); err != nil {
		return errors.Join(err, d.Restore())
	}
	return nil
}

// deviceQueue returns the queue of an interface.
func deviceQueue(s link.Spec, hasNetem bool, tables *link.JitterTables) (qdisc, error) {
	if hasNetem {
		return netem(s, s, 1, tables)
	}
	if s.Latency != 0 || s.Jitter.Kind != link.NoJitter && s.Jitter.Value != 0 || s.Loss != (link.Loss{}) || s.Down {
		return qdisc{}, fmt.Errorf(
			"%w: this kernel has no netem, so an interface can be given a rate but no latency, jitter or loss",
			ErrUnavailable)
	}
	return bfifo(queueLimit(s)), nil
}

// add adds an HTB with one class, and the class's queue.
func (d *Device) add(rate uint64, mtu uint32, queue qdisc) error {
	index, name := d.link.Attrs().Index, d.link.Attrs().Name
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: deviceRoot, Parent: netlink.HANDLE_ROOT})
	htb.Defcls = deviceClass & 0xffff
	if err := d.handle.QdiscAdd(htb); err != nil {
		return fmt.Errorf("shape %s: make qdisc htb: %w", name, err)
	}
	if err := d.handle.ClassAdd(htbClass(index, deviceRoot, deviceClass, rate, rate, mtu, mtu)); err != nil {
		return fmt.Errorf("shape %s: make class: %w", name, err)
	}
	if err := queue.set(index, deviceClass, deviceLeaf, false); err != nil {
		return fmt.Errorf("shape %s: %w", name, err)
	}
	return nil
}

// Restore removes the qdiscs of Shape. The kernel then adds its default qdisc.
func (d *Device) Restore() error {
	err := d.handle.QdiscDel(netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: d.link.Attrs().Index, Handle: deviceRoot,
		Parent: netlink.HANDLE_ROOT}))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("restore %s: %w", d.link.Attrs().Name, err)
	}
	return nil
}
