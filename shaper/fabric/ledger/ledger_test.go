// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
	"github.com/ddlemu/ddlemu/shaper/internal/layouttest"
)

// Go and C agree about the file.
func TestLayoutInC(t *testing.T) {
	if err := layouttest.CompareAll([][2]reflect.Type{
		{reflect.TypeFor[header](), ctest.Struct["ledger"]},
		{reflect.TypeFor[Record](), ctest.Struct["record"]},
		{reflect.TypeFor[Task](), ctest.Struct["task_record"]},
		{reflect.TypeFor[RangeRecord](), ctest.Struct["range_record"]},
		{reflect.TypeFor[Kernel](), ctest.Struct["kernel_record"]},
		{reflect.TypeFor[Channel](), ctest.Struct["channel_record"]},
		{reflect.TypeFor[Op](), ctest.Struct["op_record"]},
	}); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(map[string]uint64{
		"magic": magic, "version": version, "records": recordsAt, "connections": connectionsAt, "send": uint64(Send),
		"receive": uint64(Receive), "task": uint64(TaskKind), "op": uint64(OpKind), "kernel task": uint64(KernelTask),
		"kernel": uint64(KernelKind), "channel": uint64(ChannelKind), "range": uint64(RangeKind),
		"pushed": uint64(Pushed), "started": uint64(Started), "mark": uint64(Mark), "names": namesAt,
		"names' size": namesSize, "most connections": maxConnections, "unknown": Unknown,
	}, ctest.LedgerConstants); d != "" {
		t.Errorf("(-Go +C):\n%s", d)
	}
	if n := unsafe.Sizeof(Record{}); n != recordSize {
		t.Errorf("a record has %d bytes", n)
	}
	if n := unsafe.Sizeof(header{}); n > connectionsAt {
		t.Errorf("the header has %d bytes", n)
	}
	if n := unsafe.Sizeof(Connection{}); n*maxConnections != namesAt-connectionsAt {
		t.Errorf("a connection has %d bytes", n)
	}
}

var info = Info{FabricID: 7, Job: 2, Rank: 1, Node: 3, World: 4, PID: 99, Virtual: true, TimeScale: 1, Begun: 5}

func create(t *testing.T, capacity uint64) (*Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := Create(path, capacity, info)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

func read(t *testing.T, path string) *Content {
	t.Helper()
	c, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeSome writes n records of a flow, as the plugin does.
func writeSome(l *Ledger, flow, n uint64) {
	ctest.WriteSome(unsafe.Pointer(&l.mem[0]), l.capacity, flow, n)
}

// check holds the records of a content against what writeSome wrote: the newest ones, in order.
func check(t *testing.T, c *Content) {
	t.Helper()
	for i, r := range c.Records {
		if r.Kind != Send || r.Size != uint64(r.Conn)^r.Msg || r.Late != uint32(r.Msg) ||
			r.Posted != int64(uint64(r.Conn)+r.Msg) || r.Modelled != r.Posted || r.Returned != r.Posted {
			t.Fatalf("record %d is mixed of several: %+v", i, r)
		}
		if i > 0 && r.Number <= c.Records[i-1].Number {
			t.Fatalf("record %d has number %d, the one before %d", i, r.Number, c.Records[i-1].Number)
		}
	}
}

// What was written is read, and the oldest records go first.
func TestRecords(t *testing.T) {
	for _, n := range []uint64{0, 1, 63, 64, 65, 1000} {
		l, path := create(t, 64)
		writeSome(l, 1000, n)
		c := read(t, path)
		check(t, c)
		kept := min(n, 64)
		if c.Info != info || uint64(len(c.Records)) != kept || c.Overwritten != n-kept || c.Unreadable != 0 || c.Cut {
			t.Errorf("%d records: %+v", n, c)
		}
		if n > 0 && c.Records[len(c.Records)-1].Msg != n-1 {
			t.Errorf("%d records: the last one is %+v", n, c.Records[len(c.Records)-1])
		}
	}
}

// What is no ledger yet does not count as progress.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	for i, n := range []uint64{3, 100} {
		l, err := Create(Path(dir, i, 1), 64, info)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		writeSome(l, 0, n)
	}
	if err := errors.Join(os.WriteFile(Path(dir, 2, 1), nil, 0o600),
		os.WriteFile(Path(dir, 3, 1), make([]byte, 4096), 0o600)); err != nil {
		t.Fatal(err)
	}
	if n := Progress(dir); n != 103 {
		t.Errorf("%d records", n)
	}
	if n := Progress(filepath.Join(dir, "none")); n != 0 {
		t.Errorf("%d records in a folder that is not there", n)
	}
}

// The connections are read as they were noted; those that have no place are counted.
func TestConnections(t *testing.T) {
	l, path := create(t, 64)
	for i := range uint64(maxConnections + 3) {
		if place := l.Add(Connection{Flow: i, Sends: uint32(i & 1), Link: 4, Src: 1, Dst: uint32(i)}); uint64(
			place) != min(i, maxConnections) {
			t.Fatalf("connection %d is at %d", i, place)
		}
		if i == 2 {
			if c := read(t, path); len(c.Connections) != 3 || c.Unnoted != 0 {
				t.Errorf("%d connections, %d not noted", len(c.Connections), c.Unnoted)
			}
		}
	}
	c := read(t, path)
	if len(c.Connections) != maxConnections || c.Unnoted != 3 {
		t.Errorf("%d connections, %d not noted", len(c.Connections), c.Unnoted)
	}
	for i, x := range c.Connections {
		if want := (Connection{Flow: uint64(i), Sends: uint32(i & 1), Link: 4, Src: 1, Dst: uint32(i)}); x != want {
			t.Fatalf("%+v, want %+v", x, want)
		}
	}
}

// Several threads write while the file is read: no record is mixed of two, and none is counted
// twice or not at all.
func TestConcurrentWriters(t *testing.T) {
	const writers, each, capacity = 4, 2_000_000, 1 << 10
	l, path := create(t, capacity)
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() { writeSome(l, w<<28, each) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		c := read(t, path)
		check(t, c)
		if uint64(len(c.Records))+c.Unreadable > capacity {
			t.Fatalf("%d records and %d unreadable ones in %d", len(c.Records), c.Unreadable, capacity)
		}
	}
	c := read(t, path)
	if len(c.Records) != capacity || c.Unreadable != 0 || c.Overwritten != writers*each-capacity {
		t.Errorf("%d records, %d unreadable, %d overwritten", len(c.Records), c.Unreadable, c.Overwritten)
	}
}

// A process that was killed while it wrote a record leaves that one unreadable.
func TestRecordThatWasNotFinished(t *testing.T) {
	l, path := create(t, 64)
	writeSome(l, 1, 70)
	ctest.BeginOne(unsafe.Pointer(&l.mem[0]), l.capacity)
	if c := read(t, path); len(c.Records) != 63 || c.Unreadable != 1 || c.Overwritten != 7 {
		t.Errorf("%d records, %d unreadable, %d overwritten", len(c.Records), c.Unreadable, c.Overwritten)
	}
}

// A record that changes while the file is read may be mixed of two.
func TestRecordThatChangesMeanwhile(t *testing.T) {
	l, path := create(t, 64)
	writeSome(l, 1, 64)
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.Clone(first)
	second[recordsAt+5*recordSize+40]++
	dropChanged(second, first)
	c, err := parse(second, int64(len(second)))
	if err != nil {
		t.Fatal(err)
	}
	check(t, c)
	if len(c.Records) != 63 || c.Unreadable != 1 {
		t.Errorf("%d records, %d unreadable", len(c.Records), c.Unreadable)
	}
}

// A file that was cut is read up to there, and says so.
func TestPropertyCutFile(t *testing.T) {
	l, path := create(t, 64)
	writeSome(l, 1, 50)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, len(whole)).Draw(t, "bytes")
		c, err := parse(whole[:n], int64(n))
		if n < int(unsafe.Sizeof(header{})) {
			if err == nil {
				t.Fatalf("%d bytes are a ledger", n)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		stored := max(0, n-recordsAt) / recordSize
		if len(c.Records) != min(50, stored) || c.Cut != (stored < 64) || c.Unreadable != uint64(50-len(c.Records)) {
			t.Fatalf("%d bytes: %d records, cut %v, %d unreadable", n, len(c.Records), c.Cut, c.Unreadable)
		}
	})
}

// A number that does not belong to its place, or is not among the newest ones, is damaged.
func TestDamagedNumbers(t *testing.T) {
	l, path := create(t, 64)
	writeSome(l, 1, 200)
	for i, change := range []uint64{1, 64, ^uint64(63), 1 << 40, ^uint64(0)} {
		(*Record)(unsafe.Pointer(&l.mem[recordsAt+i*recordSize])).Number += change
	}
	c := read(t, path)
	check(t, c)
	if len(c.Records) != 59 || c.Unreadable != 5 || c.Overwritten != 136 {
		t.Errorf("%d records, %d unreadable, %d overwritten", len(c.Records), c.Unreadable, c.Overwritten)
	}
}

func TestForeignFiles(t *testing.T) {
	l, path := create(t, 64)
	writeSome(l, 1, 50)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func([]byte) []byte{
		"too short":           func([]byte) []byte { return []byte("x") },
		"no ledger of ddlemu": func(b []byte) []byte { b[0]++; return b },
		"it has version 3, this is version 4: use the ddlemu that wrote it": func(b []byte) []byte { b[8]--; return b },
		"it has version 5":      func(b []byte) []byte { b[8]++; return b },
		"its header is damaged": func(b []byte) []byte { b[16]++; return b },
	} {
		if _, err := parseAll(change(append([]byte(nil), good...))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a file that does not exist")
	}
}

func parseAll(b []byte) (*Content, error) { return parse(b, int64(len(b))) }

// Whatever a file contains, reading it ends, and what it returns fits together.
func FuzzLedger(f *testing.F) {
	path := filepath.Join(f.TempDir(), "ledger")
	l, err := Create(path, 4, info)
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	writeSome(l, 1, 6)
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:recordsAt+100])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseAll(b)
		if err != nil {
			return
		}
		for i, r := range c.Records {
			if r.Number <= c.Overwritten || i > 0 && r.Number <= c.Records[i-1].Number {
				t.Errorf("record %d has number %d", i, r.Number)
			}
		}
	})
}

func TestLedgerThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger")
	for name, tc := range map[string]struct {
		path     string
		capacity uint64
		want     string
	}{
		"no power of two": {path, 3, "no power of two"},
		"no folder":       {filepath.Join(dir, "none", "ledger"), 4, "no such file"},
		"too large":       {path, 1 << 50, "reserve"},
	} {
		if l, err := Create(tc.path, tc.capacity, info); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	l, err := Create(path, 4, info)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Create(path, 4, info); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("made over another one: %v", err)
	}
}
