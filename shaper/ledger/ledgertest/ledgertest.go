// SPDX-License-Identifier: Apache-2.0

// Package ledgertest lets tests in Go write ledgers.
package ledgertest

import (
	"testing"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/ledger"
)

// Ledger is what a test writes to the ledger of a rank.
type Ledger struct {
	Info        ledger.Info
	Connections []ledger.Connection
	Records     []ledger.Record // their numbers are set
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
	next, records, mask := l.View()
	for i, r := range x.Records {
		r.Number = uint64(i) + 1
		*(*ledger.Record)(unsafe.Add(records, (uint64(i)&mask)*uint64(unsafe.Sizeof(r)))) = r
		*(*uint64)(next) = r.Number
	}
	return path
}
