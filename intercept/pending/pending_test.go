// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// rank is the ledger of a rank of three, which has begun so many AllReduces. Rank 2 has no ledger.
func rank(number uint32, calls int, records ...ledger.Record) ledgertest.Ledger {
	l := ledgertest.Ledger{
		Info: ledger.Info{FabricID: 7, Rank: number, Node: number, World: 3, PID: 100 + number, Virtual: true,
			TimeScale: 1},
		Connections: []ledger.Connection{
			{Flow: 10, Sends: 1 - number, Src: 0, Dst: 1}, {Flow: 11, Sends: number, Src: 1, Dst: 0},
		},
	}
	for i := range calls {
		l.Tasks = append(l.Tasks, ledger.Task{Func: 4, Comm: 77, Seq: uint32(i), Ranks: 3, Rank: int32(number),
			Begun: int64(100 * i)})
	}
	if calls > 0 {
		l.Ops = []ledger.Op{{Task: uint32(calls), PID: int32(l.Info.PID), Channel: 2}}
	}
	for i := range records {
		records[i].Op = uint32(calls) + 1
	}
	l.Records = records
	return l
}

func load(t *testing.T, ledgers ...ledgertest.Ledger) *Report {
	t.Helper()
	return Of(read(t, ledgers...), nil)
}

func read(t *testing.T, ledgers ...ledgertest.Ledger) *messages.Trace {
	t.Helper()
	dir := t.TempDir()
	for _, l := range ledgers {
		ledgertest.Write(t, dir, 64, l)
	}
	tr, err := messages.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Each end of a message says what it has done, and so where the message is.
func TestStates(t *testing.T) {
	r := load(t,
		rank(0, 2,
			ledger.Record{Kind: ledger.Send, Msg: 0, Size: 5, Posted: 110, Modelled: 130, Returned: 131},
			ledger.Record{Kind: ledger.Send, Msg: 1, Size: 6, Posted: 140},
			ledger.Record{Kind: ledger.Send, Msg: 2, Size: 7, Posted: 150},
			ledger.Record{Kind: ledger.Receive, Conn: 1, Msg: 0, Size: 9, Posted: 120}),
		rank(1, 1,
			ledger.Record{Kind: ledger.Receive, Msg: 0, Size: 5, Posted: 100, Modelled: 120, Returned: 121},
			ledger.Record{Kind: ledger.Receive, Msg: 1, Size: 9, Posted: 105}))
	var got []string
	for _, c := range r.Connections {
		got = append(got, fmt.Sprintf("%d to %d: %d sends of %d bytes, %d receives, %d arrived, since %d: %s", c.Sender,
			c.Receiver, c.Sends, c.SendBytes, c.Receives, c.Arrived, c.Since, c.State()))
	}
	want := []string{
		"0 to 1: 2 sends of 13 bytes, 1 receives, 1 arrived, since 105: on its way",
		"1 to 0: 0 sends of 0 bytes, 1 receives, 0 arrived, since 120: the sender has not sent it",
	}
	if !slices.Equal(got, want) || r.Last != 150 {
		t.Errorf("%q until %d\nwant %q", got, r.Last, want)
	}
	got = nil
	for _, c := range r.Calls {
		got = append(got, fmt.Sprintf("%s #%d: begun %v, missing %v, %d waiting", c.Name, c.Seq, c.Begun, c.Missing,
			c.Waiting))
	}
	want = []string{
		"AllReduce #0: begun [0 1], missing [-3], 0 waiting",
		"AllReduce #1: begun [0], missing [1 -3], 3 waiting",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A message that was received, and whose sender only lacks the acknowledgement, is not what a connection waits for.
func TestReceivedIsNotAwaited(t *testing.T) {
	r := load(t,
		rank(0, 1,
			ledger.Record{Kind: ledger.Send, Msg: 0, Size: 5, Posted: 110},
			ledger.Record{Kind: ledger.Send, Msg: 1, Size: 6, Posted: 140}),
		rank(1, 1, ledger.Record{Kind: ledger.Receive, Msg: 0, Size: 5, Posted: 100, Modelled: 120, Returned: 121}))
	if len(r.Connections) != 1 || r.Connections[0].Since != 140 || r.Connections[0].First != 1 ||
		r.Connections[0].Unfinished != 1 {
		t.Errorf("%+v, want one that waits since 140 for message 1", r.Connections)
	}
}

// The other states of a connection.
func TestOneSided(t *testing.T) {
	for want, ledgers := range map[string][]ledgertest.Ledger{
		"the receiver has posted no receive for it": {rank(0, 0, ledger.Record{Kind: ledger.Send, Posted: 1}),
			rank(1, 0)},
		"arrived, the sender has not got it back": {
			rank(0, 0, ledger.Record{Kind: ledger.Send, Posted: 1}),
			rank(1, 0, ledger.Record{Kind: ledger.Receive, Posted: 1, Modelled: 2, Returned: 3}),
		},
	} {
		r := load(t, ledgers...)
		if len(r.Connections) != 1 || r.Connections[0].State() != want || len(r.Calls) != 0 {
			t.Errorf("%+v, want %q", r, want)
		}
	}
}

// A link that is down is named where the sender has posted something for it, and from when on the connection had
// failed.
func TestDown(t *testing.T) {
	f := replaytest.Fabric(t, 2)
	hop := f.Link(0, 1)
	down := f.Hops[hop].Spec
	down.Down = true
	f.Changes = []ledger.Change{{Time: 120, Hop: hop, Spec: down}}
	one := rank(0, 1, ledger.Record{Kind: ledger.Send, Msg: 0, Size: 5, Posted: 110})
	other := rank(1, 1, ledger.Record{Kind: ledger.Receive, Msg: 0, Size: 5, Posted: 100},
		ledger.Record{Kind: ledger.Send, Conn: 1, Msg: 0, Posted: 115})
	tr := read(t, one, other)
	r := Of(tr, f)
	if c := r.Connections[0]; c.State() != "node0:node1 is down" || c.DownSince != 120 || r.Last != 120 {
		t.Errorf("%+v, last %d", c, r.Last)
	}
	if c := r.Connections[1]; c.State() != "the receiver has posted no receive for it" {
		t.Errorf("the other direction is up: %+v", c)
	}
	one.Records[0].Modelled = 5000
	up := f.Hops[hop].Spec
	f.Changes = append(f.Changes, ledger.Change{Time: 6000, Hop: hop, Spec: up})
	tr = read(t, one, other)
	r = Of(tr, f)
	if c := r.Connections[0]; c.State() != "failed: node0:node1 was down" || c.Failed != 5000 || r.Last != 6000 {
		t.Errorf("%+v, last %d", c, r.Last)
	}
}

// A job that has ended in order waits for nothing.
func TestNothing(t *testing.T) {
	one := rank(0, 1, ledger.Record{Kind: ledger.Send, Posted: 1, Modelled: 3, Returned: 3})
	other := rank(1, 1, ledger.Record{Kind: ledger.Receive, Posted: 1, Modelled: 2, Returned: 2})
	for _, l := range []*ledgertest.Ledger{&one, &other} {
		l.Tasks[0].Ranks = 2
	}
	if r := load(t, one, other); len(r.Calls)+len(r.Connections) != 0 {
		t.Errorf("%+v", r)
	}
}
