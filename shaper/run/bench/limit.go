// SPDX-License-Identifier: Apache-2.0

package bench

import "fmt"

// Limit is what limits the rate of calls in the model. The zero Limit is not known.
type Limit struct {
	By    LimitedBy `json:"by"`
	Where string    `json:"where,omitempty"`
	Share float64   `json:"share"`         // of a call's time for which it is at work
	Why   string    `json:"why,omitempty"` // the rule of NCCL behind it
}

// BusyHop is the hop that the messages of a call occupy longest.
type BusyHop struct {
	Kind  string  `json:"kind"` // NIC, link, trunk, NVLink or PCIe
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of a call's time for which it is occupied
	Alike int     `json:"alike"` // other hops of this kind that are occupied as long
}

// String is such as "NIC node0 tx, occupied for 98 % of the time, as are 3 others".
func (h *BusyHop) String() string {
	text := fmt.Sprintf("%s %s, occupied for %.0f %% of the time", h.Kind, h.Name, 100*h.Share)
	switch h.Alike {
	case 0:
	case 1:
		text += ", as is 1 other"
	default:
		text += fmt.Sprintf(", as are %d others", h.Alike)
	}
	return text
}

// LimitedBy names what limits calls.
type LimitedBy string

// What can limit calls.
const (
	Latency    LimitedBy = "latency"      // chains of actions and messages, each of which waits for the one before
	Steps      LimitedBy = "steps"        // the actions of a kernel on a channel, most of them not for their bytes
	Channel    LimitedBy = "channel rate" // the rate of the actions on a channel
	Launch     LimitedBy = "launch"
	HostThread LimitedBy = "host thread" // which makes the calls
	NVLink     LimitedBy = "NVLink"
	PCIe       LimitedBy = "PCIe" // between the GPUs of a node
	NIC        LimitedBy = "NIC"
	Link       LimitedBy = "link" // from NIC to NIC
	Switch     LimitedBy = "switch"
	Proxy      LimitedBy = "proxy" // with the copies at the ends of links
)

// String is such as "NIC node0 tx, 98 %", and "" if it is not known.
func (l Limit) String() string {
	if l.By == "" {
		return ""
	}
	text := string(l.By)
	if l.Where != "" {
		text += " " + l.Where
	}
	return fmt.Sprintf("%s, %.0f %%", text, 100*l.Share)
}
