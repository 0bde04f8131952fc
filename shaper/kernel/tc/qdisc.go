// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// qdisc is a queueing discipline as the kernel takes it.
type qdisc struct {
	kind    string
	options []byte
}

// set makes q, or changes the one that is there, at a class of an interface of the
// namespace that the thread is in. What is queued stays queued.
func (q qdisc) set(index int, parent, handle uint32, isThere bool) error {
	flags, verb := unix.NLM_F_CREATE|unix.NLM_F_EXCL, "make"
	if isThere {
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

// bfifo is a queue of at most limit bytes (struct tc_fifo_qopt).
func bfifo(limit uint32) qdisc {
	return qdisc{"bfifo", binary.NativeEndian.AppendUint32(nil, limit)}
}

// ErrUnavailable says that this kernel or a shaper does not support what is asked for.
var ErrUnavailable = errors.New("not available")
