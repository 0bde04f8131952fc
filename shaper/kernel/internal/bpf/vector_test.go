// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/internal/layouttest"
)

// drawJitter is the kind of draws that package link makes for jitter.
const drawJitter = 1

// arithmetic loads the program that does the model's arithmetic by itself.
func arithmetic(t testing.TB, tables *link.JitterTables) *ebpf.Program {
	t.Helper()
	c := load(t, shapeProgVector)
	for i, table := range tables {
		if err := c.Maps[shapeMapTables].Put(uint32(i), table[:]); err != nil {
			t.Fatal(err)
		}
	}
	return c.Programs[shapeProgVector]
}

// load loads one of the programs for tests, and its maps.
func load(t testing.TB, program string) *ebpf.Collection {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: BPF programs cannot be loaded")
	}
	spec, err := loadShape()
	if err != nil {
		t.Fatal(err)
	}
	for name := range spec.Programs {
		if name != program {
			delete(spec.Programs, name)
		}
	}
	c, err := ebpf.NewCollection(spec)
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("this kernel does not load it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// run calls the arithmetic in the kernel.
func run(t testing.TB, p *ebpf.Program, v *shapeVector) {
	t.Helper()
	var b bytes.Buffer
	b.Write(make([]byte, 14))
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
	verdict, out, err := p.Test(b.Bytes())
	if err != nil || verdict != 0 {
		t.Fatalf("run it: verdict %d, %v", verdict, err)
	}
	if err := binary.Read(bytes.NewReader(out[14:]), binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
}

func TestLayout(t *testing.T) {
	if err := layouttest.Compare(reflect.TypeFor[link.Params](), reflect.TypeFor[shapeDdlemuParams]()); err != nil {
		t.Error(err)
	}
}

// TestVectors compares the arithmetic in the kernel with package link.
func TestVectors(t *testing.T) {
	own := link.NormalTable()
	for i := range own {
		own[i] /= 3
	}
	tables := link.NewJitterTables(own)
	prog := arithmetic(t, tables)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for range 5000 {
		spec := link.Spec{
			Bandwidth: []uint64{0, link.MinBandwidth, 1e9, 400e9, r.Uint64N(link.MaxBandwidth-link.MinBandwidth) +
				link.MinBandwidth}[r.IntN(5)],
			Latency: time.Duration(r.Int64N(int64(link.MaxLatency))),
			Jitter: link.Jitter{Kind: link.JitterKind(r.IntN(5)),
				Value: time.Duration(r.Int64N(int64(link.MaxLatency)) >> r.IntN(34))},
			Loss: link.Loss{P: r.Float64(), BadP: r.Float64(), GoodToBad: float64(r.IntN(2)) * r.Float64(),
				BadToGood: r.Float64()},
			MTU: 1500, Header: 40, Framing: 38,
		}
		p, err := link.NewParams(spec, 1+r.IntN(link.MaxTimeScale))
		if err != nil {
			t.Fatal(err)
		}
		v := shapeVector{
			Seed: r.Uint64(), Hop: uint32(r.IntN(70000)), Kind: drawJitter, Flow: r.Uint64(), Counter: r.Uint64(),
			Line: r.Uint64N(1 << 18), Ready: r.Uint64N(1 << 60), Late: r.Uint64() >> r.IntN(64),
			P: *(*shapeDdlemuParams)(unsafe.Pointer(&p)),
		}
		v.H.NextFree = r.Uint64N(1 << 60)
		v.H.Bad = uint32(r.IntN(2))
		bad := v.H.Bad != 0

		draw := link.Draw(v.Seed, v.Hop, v.Kind, v.Flow, v.Counter)
		took, free := p.Occupancy(v.Line), int64(v.H.NextFree)
		start := max(int64(v.Ready), free)
		if took > 0 {
			free = start + took
		}
		lost := p.Loss.Lost(v.Seed, v.Hop, 0, v.Counter, &bad)
		delay := p.Delay(v.Seed, v.Hop, v.Flow, v.Counter, tables)
		late := state.Bucket(int64(v.Late &^ (1 << 63)))
		v.Late &^= 1 << 63

		run(t, prog, &v)
		switch {
		case v.OutDraw != draw:
			t.Fatalf("seed %d: draw %x, want %x for %+v", seed, v.OutDraw, draw, v)
		case v.OutOccupy != uint64(took) || v.OutStart != uint64(start) || v.H.NextFree != uint64(free):
			t.Fatalf("seed %d: takes %d, starts at %d, free at %d; want %d, %d, %d for %+v", seed, v.OutOccupy,
				v.OutStart, v.H.NextFree, took, start, free, v)
		case max(p.Latency+v.OutSample, 0) != delay:
			t.Fatalf("seed %d: jitter %d, delay %d for %+v", seed, v.OutSample, delay, v)
		case v.OutLost != 0 != lost || v.H.Bad != 0 != bad:
			t.Fatalf("seed %d: lost %d, bad %d, want %t, %t for %+v", seed, v.OutLost, v.H.Bad, lost, bad, v)
		case v.OutBucket != uint64(late):
			t.Fatalf("seed %d: bucket %d, want %d of %d", seed, v.OutBucket, late, v.Late)
		}
	}
}

// TestChainOnSeveralCPUs lets CPUs draw losses on one hop at once. Each draw changes the state of the Gilbert-Elliott
// chain, so the number of draws says which state it must be in: no draw is lost.
func TestChainOnSeveralCPUs(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("SKIPPED: one CPU")
	}
	c := load(t, shapeProgChain)
	const cpus, draws, rounds = 2, 200_000, 30
	for round := range rounds {
		v := shapeVector{Seed: uint64(round)}
		v.P.Loss.GoodToBad, v.P.Loss.BadToGood = math.MaxUint64, math.MaxUint64
		if err := c.Maps[shapeMapVectors].Put(uint32(0), &v); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range cpus {
			all.Go(func() {
				if _, err := c.Programs[shapeProgChain].Run(&ebpf.RunOptions{Data: make([]byte, 14),
					Repeat: draws}); err != nil {
					t.Errorf("run it: %v", err)
				}
			})
		}
		all.Wait()
		if err := c.Maps[shapeMapVectors].Lookup(uint32(0), &v); err != nil {
			t.Fatal(err)
		}
		// A signal of Go's runtime ends a run early, and the library repeats it: then there are more draws.
		if want := v.H.Drawn % 2; v.H.Drawn < cpus*draws || uint64(v.H.Bad) != want {
			t.Errorf("round %d: after %d draws of at least %d the state is %d, want %d", round, v.H.Drawn, cpus*draws,
				v.H.Bad, want)
		}
	}
}
