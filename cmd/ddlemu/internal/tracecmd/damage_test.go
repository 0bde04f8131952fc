// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/pending"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/report/page"
	"github.com/ddlemu/ddlemu/intercept/whatif"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// damagedJob writes the ledgers of an AllReduce of two ranks with a ring.
func damagedJob(t *testing.T, dir string) (paths []string) {
	t.Helper()
	if err := ledger.WriteFabric(dir, []byte("base: ndr400\nnodes: 2\n")); err != nil {
		t.Fatal(err)
	}
	for rank := range uint32(2) {
		l := ledgertest.Ledger{
			Info: ledger.Info{FabricID: 7, Rank: rank, Node: rank, World: 2, PID: 100 + rank, Virtual: true,
				TimeScale: 1},
			Connections: []ledger.Connection{{Flow: 10, Sends: 1 - rank, Src: 0, Dst: 1},
				{Flow: 11, Sends: rank, Src: 1, Dst: 0}},
			Tasks: []ledger.Task{{Func: 4, Algo: 1, Proto: 2, Comm: 7, Ranks: 2, Rank: int32(rank), Begun: 1000}},
			Ops:   []ledger.Op{{Task: 1, PID: int32(100 + rank)}, {Task: 1, PID: int32(100 + rank)}},
		}
		for i := range uint64(8) {
			at := int64(1000 + 1000*i)
			l.Records = append(l.Records,
				ledger.Record{Kind: ledger.Send, Conn: rank, Op: 2, Msg: i, Size: 5000, Posted: at, Modelled: at + 3000,
					Returned: at + 3000},
				ledger.Record{Kind: ledger.Receive, Conn: 1 - rank, Op: 3, Msg: i, Size: 5000, Posted: 1000,
					Modelled: at + 1500, Returned: at + 1500})
		}
		l.Ranges = []ledger.Range{
			{Thread: 100 + rank, Name: "step", Begun: 900, Ended: 9900}, {Thread: 100 + rank, Name: "forward", Depth: 1,
				Order: 1, Begun: 950, Ended: 1000},
			{Thread: 7, Style: ledger.Started, Order: 2, Begun: 980}, {Style: ledger.Mark, Order: 3, Begun: 980,
				Ended: 980},
		}
		paths = append(paths, ledgertest.Write(t, dir, 64, l))
	}
	return paths
}

// Whatever bytes of a ledger are damaged, each command ends, without a panic.
func TestPropertyDamagedLedgers(t *testing.T) {
	dir := t.TempDir()
	paths := damagedJob(t, dir)
	var good [][]byte
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, b)
	}
	const connections, records, record = 4096, 4096 + 64*16384 + 1<<20, 64
	read := func(t rapid.TB, which int, b []byte) {
		if err := os.WriteFile(paths[which], b, 0o600); err != nil {
			t.Fatal(err)
		}
		readAll(dir)
		if err := os.WriteFile(paths[which], good[which], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Found at random once: the first message of a call has none before it.
	b := bytes.Clone(good[1])
	for at, value := range map[int]uint64{records + 8*2: 1, records + 8*124: 5, records + 8*138: 1, connections + 8*5: 28} {
		binary.LittleEndian.PutUint64(b[at:], value)
	}
	read(t, 1, b)
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, len(paths)-1).Draw(t, "ledger")
		b := bytes.Clone(good[which])
		for range rapid.IntRange(1, 6).Draw(t, "places") {
			at := connections + 8*rapid.IntRange(0, 15).Draw(t, "word")
			if rapid.Bool().Draw(t, "record") {
				at = records + 8*rapid.IntRange(0, 23*record/8-1).Draw(t, "word")
			}
			value := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 70), rapid.Just(uint64(1)<<63-1)).Draw(t, "value")
			if at%64 >= 8 || at < records {
				binary.LittleEndian.PutUint64(b[at:], value)
			} else {
				b[at+8] = byte(value) // the number stays, so that the record counts
			}
		}
		read(t, which, b)
	})
	if err := readAll(dir); err != nil {
		t.Errorf("the ledgers without damage: %v", err)
	}
}

// readAll does what the commands do.
func readAll(dir string) error {
	t, err := messages.Load(dir)
	if err != nil {
		return err
	}
	printMessages(io.Discard, t)
	fab, err := replay.LoadFabric(dir, t.Ranks[0].TimeScale)
	if err != nil {
		return err
	}
	printPending(io.Discard, t, pending.Of(t, fab))
	played, r, err := cli.Explain(fab, t)
	if err != nil {
		return err
	}
	(&whyPrinter{w: io.Discard, scale: 1}).print(t, r, 10, nil)
	doc, err := reportOf(t, fab)
	if err != nil {
		return err
	}
	if err := page.Report(io.Discard, doc); err != nil {
		return err
	}
	_, err = whatif.New(fab, t).Of(whatif.Upgrades(played, r, 2))
	return err
}
