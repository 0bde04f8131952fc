// SPDX-License-Identifier: Apache-2.0

package nccllog

import "strings"

// Pair is one direction of a channel between two ranks. P2P says that it is for send and receive.
type Pair struct {
	From, To, Channel int
	P2P               bool
}

// NICs are the network devices at both ends of a connection, by the plugin's numbers on each node; Unknown until
// logged.
type NICs struct {
	Send, Receive int
	// the sender's rank, or with PXN another one of its node whose process sends; Unknown until logged
	Through  int
	Listened uint64 // how many connections the receiver had listened for before, on all communicators
}

// NICsOf returns the network devices of each connection. NCCL connects ranks at the first collective that needs it, so
// later calls return more. Ranks without a log may be nil.
func NICsOf(comms []*Comm) map[Pair]NICs {
	all := map[Pair]NICs{}
	for _, c := range comms {
		if c == nil {
			continue
		}
		for _, connection := range c.Connections {
			device := device(connection.Via)
			if device == Unknown {
				continue
			}
			key := Pair{connection.From, connection.To, connection.Channel, connection.Index == 1}
			nics, known := all[key]
			if !known {
				nics = NICs{Send: Unknown, Receive: Unknown, Through: Unknown}
			}
			if connection.Receive {
				nics.Receive, nics.Listened = device, connection.Listened
			} else {
				nics.Send, nics.Through = device, through(connection.Via, key.From)
			}
			all[key] = nics
		}
	}
	return all
}

// through returns R of NET/goemu/N(R), else the sender.
func through(via string, sender int) int {
	_, rest, found := strings.Cut(via, "(")
	digits, _, _ := strings.Cut(rest, ")")
	if rank := number(digits); found && rank != Unknown {
		return rank
	}
	return sender
}

// device returns N of NET/goemu/N, which may be followed by the rank of the proxy, (R), or by flags, /GDRDMA.
func device(via string) int {
	parts := strings.Split(via, "/")
	if parts[0] != "NET" || len(parts) < 3 {
		return Unknown
	}
	digits, _, _ := strings.Cut(parts[2], "(")
	return number(digits)
}
