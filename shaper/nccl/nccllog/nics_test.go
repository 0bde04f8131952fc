// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNICsOf(t *testing.T) {
	comms := make([]*Comm, 3) // the last rank has no log
	for rank, text := range []string{
		`vm:1:1 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/goemu/0
vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/goemu/1(2)
vm:1:1 [0] NCCL INFO Channel 01/1 : 0[0] -> 1[1] [send] via NET/goemu/3/GDRDMA
vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[2] via P2P/IPC
`,
		`vm:2:2 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/goemu/2
vm:2:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/goemu/x
`,
	} {
		var p Parser
		if _, err := p.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		comms[rank] = p.Comm()
	}
	want := map[Pair]NICs{
		{From: 1, To: 0}:                        {Unknown, 0, Unknown, 0},
		{From: 0, To: 1}:                        {1, 2, 2, 0},
		{From: 0, To: 1, Channel: 1, P2P: true}: {3, Unknown, 0, 0},
	}
	if d := cmp.Diff(want, NICsOf(comms)); d != "" {
		t.Error(d)
	}
}

// A process listens for the connections of all its communicators in one order: those over NET that it receives count,
// also those of the communicator that was not asked for, and no others.
func TestListened(t *testing.T) {
	var p Parser
	first, second := &Comm{}, &Comm{}
	write := func(c *Comm, lines ...string) {
		p.Select(c)
		for _, line := range lines {
			if _, err := p.Write([]byte("vm:1:1 [0] NCCL INFO Channel " + line + "\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(first, "00/0 : 1[1] -> 0[0] [receive] via NET/goemu/0", "00/0 : 0[0] -> 1[1] [send] via NET/goemu/0",
		"01/0 : 1[1] -> 0[0] [receive] via NET/goemu/0")
	write(second, "00/0 : 1[1] -> 0[0] [receive] via NET/goemu/0", "00/0 : 0[0] -> 2[2] via P2P/IPC")
	write(first, "01/1 : 1[1] -> 0[0] [receive] via NET/goemu/0")
	want := map[Pair]NICs{
		{From: 0, To: 1}:                        {0, Unknown, 0, 0},
		{From: 1, To: 0}:                        {Unknown, 0, Unknown, 0},
		{From: 1, To: 0, Channel: 1}:            {Unknown, 0, Unknown, 1},
		{From: 1, To: 0, Channel: 1, P2P: true}: {Unknown, 0, Unknown, 3},
	}
	if d := cmp.Diff(want, NICsOf([]*Comm{first})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[Pair]NICs{{From: 1, To: 0}: {Unknown, 0, Unknown, 2}}, NICsOf([]*Comm{second})); d != "" {
		t.Error(d)
	}
}
