// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// FuzzOpenBytes opens any bytes as a fabric's file.
func FuzzOpenBytes(f *testing.F) {
	d := newDir(f)
	whole := valid(f, d)
	f.Add([]byte(nil))
	f.Add([]byte("name: lossy\nnodes: 2\n"))
	f.Add(make([]byte, page))
	f.Add([]byte(whole[:page]))
	f.Add([]byte(whole[:2*page]))
	f.Fuzz(func(t *testing.T, b []byte) {
		openAndUse(t, d, b)
	})
}

// record is one change to a good file: a word of an entry of a table.
type record struct {
	Table, Word uint8
	Entry       uint16
	Value       uint64
}

var recordSize = binary.Size(record{})

// place is a table of the file: where it begins, and the size of its entries.
type place struct{ at, size uint64 }

func (c content) tables() []place {
	h := c.head()
	return []place{
		{0, uint64(unsafe.Sizeof(header{}))}, {h.HopsOff, uint64(unsafe.Sizeof(link.Hop{}))},
		{h.PathsOff, uint64(unsafe.Sizeof(pathEntry{}))},
		{h.BlocksOff, uint64(unsafe.Sizeof(link.Block{}))}, {h.JobsOff, uint64(unsafe.Sizeof(jobEntry{}))},
		{h.LinkStatsOff, uint64(linkStatsSize)},
		{h.ParticipantsOff, uint64(unsafe.Sizeof(participantEntry{}))},
		{h.EventsOff, uint64(unsafe.Sizeof(eventEntry{}))},
		{h.TablesOff, uint64(unsafe.Sizeof(link.JitterTable{}))}, {h.ConfigOff, 64},
		{h.SnapshotsOff, uint64(unsafe.Sizeof(Snapshot{}))},
	}
}

// patch is c after the changes that records describe.
func (c content) patch(records []byte) content {
	out := slices.Clone(c)
	places := c.tables()
	for ; len(records) >= recordSize; records = records[recordSize:] {
		var r record
		// It cannot fail: there are enough bytes.
		_, _ = binary.Decode(records, binary.LittleEndian, &r)
		p := places[int(r.Table)%len(places)]
		at := p.at + uint64(r.Entry)*p.size + uint64(r.Word)*8
		if r.Table == 0 {
			at = uint64(r.Word) * 8 % p.size
		}
		if at+8 <= uint64(len(out)) {
			binary.LittleEndian.PutUint64(out[at:], r.Value)
		}
	}
	return out
}

func records(rs ...record) []byte {
	var b []byte
	for _, r := range rs {
		b, _ = binary.Append(b, binary.LittleEndian, r)
	}
	return b
}

// used is a fabric's file after some use, to be patched.
func used(t testing.TB, d *Dir) content {
	t.Helper()
	s := ThreeNodes(t)
	s.Kernel = true // it has snapshots too
	f := create(t, d, s)
	_, p := joined(t, f, 1)
	p.Leave()
	joined(t, f, 2)
	f.Event("up")
	if err := f.Change(map[int]link.Spec{3: family(3)}); err != nil {
		t.Fatal(err)
	}
	c := append(content{}, f.mem...)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A file with any wrong words is refused or can be used.
func TestPropertyPatchedFile(t *testing.T) {
	d := newDir(t)
	base := used(t, d)
	places := base.tables()
	values := []uint64{0, 1, 2, 3, 4, 5, 8, 16, 64, 100, 136, 511, 512, 4096, 1 << 16, 1 << 20, 1<<31 - 1, 1 << 31,
		1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	rapid.Check(t, func(rt *rapid.T) {
		var rs []record
		for range rapid.IntRange(1, 6).Draw(rt, "n") {
			i := rapid.IntRange(0, len(places)-1).Draw(rt, "table")
			r := record{Table: uint8(i), Entry: rapid.Uint16Range(0, 40).Draw(rt, "entry"),
				Value: rapid.SampledFrom(values).Draw(rt, "value")}
			if rapid.Bool().Draw(rt, "two halves") {
				r.Value = r.Value<<32 | rapid.SampledFrom(values).Draw(rt, "low")&(1<<32-1)
			}
			r.Word = uint8(rapid.Uint64Range(0, min(places[i].size/8, 256)-1).Draw(rt, "word"))
			rs = append(rs, r)
		}
		openAndUse(rt, d, base.patch(records(rs...)))
	})
}

// FuzzOpenPatched opens and uses a good file of which some words are changed, and
// which is shorter or longer.
func FuzzOpenPatched(f *testing.F) {
	d := newDir(f)
	base := used(f, d)
	const big = ^uint64(0)
	f.Add([]byte(nil), 0)
	// counts
	f.Add(records(record{Table: 0, Word: 14, Value: big}), 0)
	// a hop's block
	f.Add(records(record{Table: 1, Entry: 3, Word: 2, Value: 100}), 0)
	// no payload
	f.Add(records(record{Table: 3, Entry: 3, Word: 10, Value: 0}), 0)
	// jobs
	f.Add(records(record{Table: 4, Entry: 0, Word: 0, Value: 7}, record{Table: 4, Word: 1, Value: big}), 0)
	// participants
	f.Add(records(record{Table: 6, Entry: 1, Word: 0, Value: 1}, record{Table: 6, Entry: 1, Word: 1, Value: big}), 0)
	// rings and budget
	f.Add(records(record{Table: 6, Entry: 0, Word: 4, Value: big}, record{Table: 6, Entry: 0, Word: 5, Value: 1}), 0)
	// events
	f.Add(records(record{Table: 7, Entry: 0, Word: 0, Value: 5}), 0)
	// text
	f.Add(records(record{Table: 9, Entry: 0, Word: 0, Value: 0x2020203a7d7b7d7b}), 0)
	f.Add([]byte(nil), -1)
	f.Add([]byte(nil), page)
	f.Fuzz(func(t *testing.T, patches []byte, longer int) {
		b := base.patch(patches)
		switch {
		case longer < 0:
			b = b[:max(0, len(b)+max(longer, -len(b)))]
		case longer > 0:
			b = append(b, make([]byte, min(longer, 1<<20))...)
		}
		openAndUse(t, d, b)
	})
}

// openAndUse opens b as a fabric's file and, if it is accepted, calls every method.
func openAndUse(t rapid.TB, d *Dir, b []byte) {
	if err := os.WriteFile(filepath.Join(d.Path, "t"+Suffix), b, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	f, err := d.Open("t")
	if err != nil {
		if !errors.Is(err, ErrNotUsable) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("refused with %q", err)
		}
		return
	}
	defer f.Close()
	checkTables(t, f)
	use(t, f)
	checkTables(t, f)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// checkTables checks that the tables lie in the file, behind the header, and not
// in each other.
func checkTables(t rapid.TB, f *File) {
	t.Helper()
	base, end := uintptr(f.Base()), uintptr(len(f.mem))
	last := unsafe.Sizeof(header{})
	span := func(name string, at unsafe.Pointer, size uintptr, n int) {
		if n == 0 {
			return
		}
		from := uintptr(at) - base
		if from < last || from%8 != 0 || from+size*uintptr(n) > end {
			t.Fatalf("%s from %d on, %d of %d bytes; the file has %d, the one before ends at %d", name, from, n, size,
				end, last)
		}
		last = from + size*uintptr(n)
	}
	span("hops", unsafe.Pointer(unsafe.SliceData(f.hops())), unsafe.Sizeof(link.Hop{}), len(f.hops()))
	span("paths", unsafe.Pointer(unsafe.SliceData(f.pathTable())), unsafe.Sizeof(pathEntry{}), len(f.pathTable()))
	span("blocks", unsafe.Pointer(unsafe.SliceData(f.blocks())), unsafe.Sizeof(link.Block{}), len(f.blocks()))
	span("jobs", unsafe.Pointer(unsafe.SliceData(f.jobs())), unsafe.Sizeof(jobEntry{}), len(f.jobs()))
	span("link statistics", unsafe.Pointer(unsafe.SliceData(f.linkStats())), unsafe.Sizeof(LinkStats{}),
		len(f.linkStats()))
	span("node statistics", unsafe.Pointer(unsafe.SliceData(f.nodeStats())), unsafe.Sizeof(LinkStats{}),
		len(f.nodeStats()))
	span("snapshots", unsafe.Pointer(unsafe.SliceData(f.snapshotTable())), unsafe.Sizeof(Snapshot{}),
		len(f.snapshotTable()))
	span("participants", unsafe.Pointer(unsafe.SliceData(f.participants())), unsafe.Sizeof(participantEntry{}),
		len(f.participants()))
	span("events", unsafe.Pointer(unsafe.SliceData(f.events())), unsafe.Sizeof(eventEntry{}), len(f.events()))
	span("tables", unsafe.Pointer(unsafe.SliceData(f.tables())), unsafe.Sizeof(link.JitterTable{}), 3)
	span("text", unsafe.Pointer(unsafe.SliceData(f.mem[f.head().ConfigOff:])), 1, int(f.head().ConfigLen))
	// The engine in C follows these without a check.
	for i := range f.hops() {
		n := f.hops()[i].Block
		if int(n) >= len(f.blocks()) || f.blocks()[n].Params.Payload == 0 || f.blocks()[n].Params.Segment == 0 {
			t.Fatalf("hop %d has block %d of %d", i, n, len(f.blocks()))
		}
	}
}

// use calls every method of an open file. Its tables may contain anything, so methods may
// return errors, but none panics or waits for ever.
func use(t rapid.TB, f *File) {
	for _, h := range f.Hops() {
		if _, err := link.NewParams(h.Spec, f.Fixed().TimeScale); err != nil {
			t.Errorf("hop %d: %v", h.Index, err)
		}
	}
	nics := f.Fixed().Nodes * f.Fixed().NICsPerNode
	for src := -1; src <= min(nics, 8); src++ {
		for dst := -1; dst <= min(nics, 8); dst++ {
			for _, step := range f.Path(src, dst) {
				if step.Hop < 0 || step.Hop >= len(f.Hops()) {
					t.Errorf("path from %d to %d takes hop %d", src, dst, step.Hop)
				}
			}
		}
	}
	_, _, _, _, _ = f.Name(), f.Profile(), f.ID(), f.Config(), f.Down()
	for _, j := range f.Jobs() {
		j.TrafficDuring(j.Status())
		j.Nodes()
		f.JobsOf(j.key)
	}
	f.TakeEndSnapshots(f.AwaitingSnapshot())
	f.Participants()
	f.Alive(3)
	f.Events()
	f.Event("used")
	f.Events()
	UseAbove(f)
	if j, err := f.JoinJob(5); err == nil {
		takePart(t, f, j)
	}
	if dead := f.Reap(); dead != nil {
		t.Errorf("reaped %v, after joining did", dead)
	}
	f.Participants()
	// Not Change, which waits for blocks that seem to be retired in the future.
	if unlock, err := f.lock(changing, time.Second); err != nil {
		t.Error(err)
	} else {
		if len(f.hops()) > 0 {
			_ = f.change(map[int]link.Spec{0: family(3)})
		}
		unlock()
	}
	UseAbove(f)
	f.Hops()
	f.TakeDown()
}

func takePart(t rapid.TB, f *File, j Job) {
	j.Announce()
	j.Invalidate(SharedGPU)
	p, err := f.Join(j, Rank{Rank: 1, Budget: 100})
	if err != nil {
		t.Errorf("join: %v", err)
		return
	}
	if !p.Reserve(100) || p.Reserve(1) || p.Available() != 0 {
		t.Error("the budget is not kept")
	}
	if !f.Alive(p.Slot()) {
		t.Error("joined, but not alive")
	}
	if s := p.Job().Status(); s.Key != 5 || !s.Running {
		t.Errorf("joined %+v", s)
	}
	p.Leave()
}
