// SPDX-License-Identifier: Apache-2.0

// Package ledgertest lets tests in Go write ledgers.
package ledgertest

import (
	"testing"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Ledger is what a test writes to the ledger of a rank.
type Ledger struct {
	Info        ledger.Info
	Connections []ledger.Connection
	Tasks       []ledger.Task // before the records; their numbers are set, from 1
	Ops         []ledger.Op
	Records     []ledger.Record
	Kernels     []ledger.Kernel
	Channels    []ledger.Channel
	Ranges      []ledger.Range
	LostRanges  uint64
}

// Write makes the ledger in a folder, with space for the given number of records, and returns its
// path.
func Write(t testing.TB, dir string, capacity uint64, x Ledger) string {
	t.Helper()
	path := ledger.Path(dir, int(x.Info.Rank), int(x.Info.PID))
	l, err := ledger.Create(path, capacity, x.Info)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range x.Connections {
		l.Add(c)
	}
	w := writer{l: l}
	for _, r := range x.Tasks {
		r.Number = w.number()
		if r.Kind != ledger.KernelTask {
			r.Kind = ledger.TaskKind
		}
		*(*ledger.Task)(w.place()) = r
	}
	for _, r := range x.Ops {
		r.Number, r.Kind = w.number(), ledger.OpKind
		*(*ledger.Op)(w.place()) = r
	}
	for _, r := range x.Records {
		r.Number = w.number()
		*(*ledger.Record)(w.place()) = r
	}
	for _, r := range x.Kernels {
		r.Number, r.Kind = w.number(), ledger.KernelKind
		*(*ledger.Kernel)(w.place()) = r
	}
	for _, r := range x.Channels {
		r.Number, r.Kind = w.number(), ledger.ChannelKind
		*(*ledger.Channel)(w.place()) = r
	}
	for _, r := range x.Ranges {
		r.Number = w.number()
		*(*ledger.RangeRecord)(w.place()) = ledger.RangeRecord{
			Number: r.Number, Kind: ledger.RangeKind, Thread: r.Thread, Name: w.name(r.Name), Domain: w.name(r.Domain),
			Style: r.Style,
			Depth: uint32(r.Depth), Order: r.Order, Begun: r.Begun, Ended: r.Ended,
		}
	}
	_, _, lost := l.Ranges()
	*(*uint64)(lost) = x.LostRanges
	return path
}

// writer writes one record after another.
type writer struct {
	l    *ledger.Ledger
	last uint64
}

// number is the number of the next record.
func (w *writer) number() uint64 {
	next, _, _ := w.l.View()
	w.last++
	*(*uint64)(next) = w.last
	return w.last
}

// place is where the record with the last number belongs.
func (w *writer) place() unsafe.Pointer {
	_, records, mask := w.l.View()
	return unsafe.Add(records, ((w.last-1)&mask)*uint64(unsafe.Sizeof(ledger.Record{})))
}

// name adds a name behind the others, and returns its place.
func (w *writer) name(text string) uint32 {
	if text == "" {
		return 0
	}
	used, names, _ := w.l.Ranges()
	at := *(*uint64)(used)
	copy(unsafe.Slice((*byte)(unsafe.Add(names, at)), len(text)), text)
	*(*uint64)(used) = at + uint64(len(text)) + 1
	return uint32(at)
}
