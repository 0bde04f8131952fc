// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// Handles of what Device puts on an interface of the host. Their number says whose
// it is.
const (
	deviceRoot  = 0xdd1e << 16
	deviceClass = deviceRoot | 1
	deviceLeaf  = 0xdd1f << 16
)

// Device is an interface that is not ddlemu's, in the namespace of the caller's
// thread. Only what leaves by it can be shaped.
type Device struct {
	handle *netlink.Handle
	link   netlink.Link
}

// OpenDevice finds the interface called name. The error wraps ErrUnavailable if
// there is none.
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

// Close lets go of the interface, which stays as it is.
func (d *Device) Close() { d.handle.Close() }

// MTU is the interface's, in bytes.
func (d *Device) MTU() int { return d.link.Attrs().MTU }

// errForeign says that somebody else has set up the interface's queueing.
var errForeign = errors.New("it has a queueing discipline of its own")

// Shaped says whether Shape is in force. The error wraps ErrUnavailable if somebody
// else's queueing discipline is in its place.
func (d *Device) Shaped() (bool, error) {
	all, err := d.handle.QdiscList(d.link)
	if err != nil {
		return false, fmt.Errorf("list the qdiscs of %s: %w", d.link.Attrs().Name, err)
	}
	for _, q := range all {
		a := q.Attrs()
		switch {
		case a.Parent != netlink.HANDLE_ROOT || a.Handle == 0: // the kernel's own have no number
		case a.Handle == deviceRoot:
			return true, nil
		default:
			return false, fmt.Errorf("%w: %s: %w, %s %s: remove that first (tc qdisc del dev %[2]s root)", ErrUnavailable, d.link.Attrs().Name, errForeign, q.Type(), netlink.HandleStr(a.Handle))
		}
	}
	return false, nil
}

// Shape makes what leaves by the interface go as over a link: its rate, and where
// netem is in this kernel its latency, jitter and loss. Nothing else of the interface
// changes, and Restore undoes it.
func (d *Device) Shape(s link.Spec, hasNetem bool, tables *[3]*link.JitterTable) error {
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
		// The queue may be another kind now: what waits in it is lost, as it is by Restore.
		if err := d.Restore(); err != nil {
			return err
		}
	}
	if err := d.put(rate, s.MTU, queue); err != nil {
		return errors.Join(err, d.Restore())
	}
	return nil
}

func deviceQueue(s link.Spec, hasNetem bool, tables *[3]*link.JitterTable) (qdisc, error) {
	if hasNetem {
		return netem(s, s, 1, tables)
	}
	if s.Latency != 0 || s.Jitter.Kind != link.NoJitter && s.Jitter.Value != 0 || s.Loss != (link.Loss{}) || s.Down {
		return qdisc{}, fmt.Errorf("%w: this kernel has no netem, so an interface can be given a rate but no latency, jitter or loss", ErrUnavailable)
	}
	return bfifo(bound(s)), nil
}

// put makes the qdiscs.
func (d *Device) put(rate uint64, mtu uint32, queue qdisc) error {
	index, name := d.link.Attrs().Index, d.link.Attrs().Name
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: deviceRoot, Parent: netlink.HANDLE_ROOT})
	htb.Defcls = deviceClass & 0xffff
	if err := d.handle.QdiscAdd(htb); err != nil {
		return fmt.Errorf("shape %s: make qdisc htb: %w", name, err)
	}
	if err := d.handle.ClassAdd(htbClass(index, deviceRoot, deviceClass, rate, rate, mtu, mtu)); err != nil {
		return fmt.Errorf("shape %s: make its class: %w", name, err)
	}
	if err := queue.set(index, deviceClass, deviceLeaf, false); err != nil {
		return fmt.Errorf("shape %s: %w", name, err)
	}
	return nil
}

// Restore removes what Shape put there; the kernel puts its own default in its place.
func (d *Device) Restore() error {
	err := d.handle.QdiscDel(netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: d.link.Attrs().Index, Handle: deviceRoot, Parent: netlink.HANDLE_ROOT}))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("restore %s: %w", d.link.Attrs().Name, err)
	}
	return nil
}
