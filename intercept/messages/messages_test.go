// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

func of(rank uint32) ledger.Info {
	return ledger.Info{FabricID: 7, Job: 1, Rank: rank, Node: rank, World: 2, PID: 100 + rank, Virtual: true,
		TimeScale: 1}
}

// twoRanks is a job in which rank 0 sends messages 0 to 2 of flow 5 to rank 1. The last one has not
// arrived, and rank 1 has posted a receive for a connection that rank 0 does not know.
func twoRanks() [2]ledgertest.Ledger {
	return [2]ledgertest.Ledger{
		{Info: of(0), Connections: []ledger.Connection{{Flow: 5, Sends: 1, Src: 0, Dst: 1}}, Records: []ledger.Record{
			{Kind: ledger.Send, Conn: 0, Msg: 0, Size: 100, Posted: 10, Modelled: 40, Returned: 41, Late: 6},
			{Kind: ledger.Send, Conn: 0, Msg: 1, Size: 300, Posted: 20, Modelled: 60, Returned: 60},
			{Kind: ledger.Send, Conn: 0, Msg: 2, Size: 7, Posted: 30},
		}},
		{Info: of(1), Connections: []ledger.Connection{{Flow: 9}, {Flow: 5, Sends: 0, Src: 0, Dst: 1}},
			Records: []ledger.Record{
				{Kind: ledger.Receive, Conn: 1, Msg: 0, Size: 100, Posted: 5, Modelled: 30, Returned: 33, Late: 3},
				{Kind: ledger.Receive, Conn: 1, Msg: 1, Size: 300, Posted: 25, Modelled: 50, Returned: 52, Late: 2},
				{Kind: ledger.Receive, Conn: 0, Msg: 4, Size: 1, Posted: 1},
			}},
	}
}

func write(t *testing.T, ledgers ...ledgertest.Ledger) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, l := range ledgers {
		ledgertest.Write(t, dir, 64, l)
	}
	return dir
}

func load(t *testing.T, dir string) *Trace {
	t.Helper()
	tr, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Both ends of a message are one message, in the order of their first times.
func TestMessages(t *testing.T) {
	two := twoRanks()
	tr := load(t, write(t, two[1], two[0]))
	unknown := Message{SendTask: -1, ReceiveTask: -1, Channel: -1}
	want := []Message{unknown, unknown, unknown, unknown}
	set := func(i int, change func(*Message)) { change(&want[i]) }
	set(0, func(m *Message) {
		m.Flow, m.Number, m.Sender, m.SentBy, m.Receiver, m.Size, m.HasReceive, m.ReceivePosted = 9, 4, -1, -1, 1, 1,
			true, 1
	})
	for i := 1; i < 4; i++ {
		set(i, func(m *Message) { m.Flow, m.Number, m.Sender, m.Receiver, m.Src, m.Dst = 5, uint64(i-1), 0, 1, 0, 1 })
	}
	set(1, func(m *Message) {
		m.Size, m.HasSend, m.Sent, m.Posted, m.Stalled, m.Complete, m.SendEnds = 100, true, true, 10, 6, 40, 41
		m.HasReceive, m.Received, m.ReceivePosted, m.Due, m.Late, m.ReceiveEnds = true, true, 5, 30, 3, 33
	})
	set(2, func(m *Message) {
		m.Size, m.HasSend, m.Sent, m.Posted, m.Complete, m.SendEnds = 300, true, true, 20, 60, 60
		m.HasReceive, m.Received, m.ReceivePosted, m.Due, m.Late, m.ReceiveEnds = true, true, 25, 50, 2, 52
	})
	set(3, func(m *Message) { m.Size, m.HasSend, m.Posted = 7, true, 30 })
	if !reflect.DeepEqual(tr.Messages, want) {
		t.Errorf("%+v\nwant %+v", tr.Messages, want)
	}
	if tr.Whole() != 2 || len(tr.Ranks) != 2 || tr.Ranks[0].Rank != 0 || tr.Overwritten != 0 || tr.Unreadable != 0 ||
		len(tr.Cut) != 0 {
		t.Errorf("%d whole, ranks %+v, %+v", tr.Whole(), tr.Ranks, tr)
	}
}

// A pair's times are those of messages that both ends have noted.
func TestPairs(t *testing.T) {
	two := twoRanks()
	got := load(t, write(t, two[:]...)).Pairs()
	want := []Pair{
		{Sender: -1, Receiver: 1, Messages: 1, Bytes: 1, Largest: 1},
		{Sender: 0, Receiver: 1, Messages: 3, Bytes: 407, Largest: 300, Whole: 2, Transfer: 30, LongestTransfer: 30,
			ReceiveAfter: 5, MostLate: 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// What is missing is counted: records that newer ones replaced, and a file that was cut.
func TestMissing(t *testing.T) {
	two := twoRanks()
	dir := t.TempDir()
	ledgertest.Write(t, dir, 2, two[0])
	path := ledgertest.Write(t, dir, 64, two[1])
	if err := os.Truncate(path, 3<<20); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-(1<<20)+64*2+4096); err != nil { // two records are left
		t.Fatal(err)
	}
	tr := load(t, dir)
	if tr.Overwritten != 1 || tr.Unreadable != 1 || len(tr.Cut) != 1 || len(tr.Messages) != 3 {
		t.Errorf("%d overwritten, %d unreadable, cut %q, %d messages", tr.Overwritten, tr.Unreadable, tr.Cut,
			len(tr.Messages))
	}
}

func TestFoldersThatCannotBeRead(t *testing.T) {
	two := twoRanks()
	two[1].Info.Job = 2
	foreign := t.TempDir()
	if err := os.WriteFile(ledger.Path(foreign, 0, 1), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, dir := range map[string]string{
		"no ledger in":           t.TempDir(),
		"are of two jobs":        write(t, two[:]...),
		"no such file":           "/nonexistent",
		"too short for a ledger": foreign,
	} {
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
