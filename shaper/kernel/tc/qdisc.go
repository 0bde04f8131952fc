// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ErrUnavailable says that this kernel, or a shaper, does not support the request.
var ErrUnavailable = errors.New("not available")

// qdisc is a queueing discipline, with its options encoded for the kernel.
type qdisc struct {
	kind    string
	options []byte
}

// set adds q to an interface in the thread's namespace or, if it exists, changes its options. Queued packets stay
// queued.
func (q qdisc) set(index int, parent, handle uint32, exists bool) error {
	flags, verb := unix.NLM_F_CREATE|unix.NLM_F_EXCL, "make"
	if exists {
		flags, verb = 0, "change"
	}
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, flags|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: parent, Handle: handle})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(q.kind)))
	req.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, q.options))
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("%s qdisc %s: %w", verb, q.kind, err)
	}
	return nil
}

// bfifo returns a FIFO queue of at most limit bytes (struct tc_fifo_qopt).
func bfifo(limit uint32) qdisc {
	return qdisc{"bfifo", binary.NativeEndian.AppendUint32(nil, limit)}
}
