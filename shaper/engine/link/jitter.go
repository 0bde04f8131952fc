// SPDX-License-Identifier: Apache-2.0

package link

// #include "arith.h"
import "C"

import (
	"fmt"
	"math"
	"time"
	"unsafe"
)

// JitterKind is the distribution of the latency added to each segment.
type JitterKind uint32

// Jitter distributions. Those with a table are drawn by inverting a table of
// JitterTableSize quantiles with integer interpolation, so that C and eBPF draw the same
// value.
const (
	NoJitter JitterKind = C.DDLEMU_NO_JITTER
	Uniform  JitterKind = C.DDLEMU_UNIFORM // between -Value and +Value
	Normal   JitterKind = C.DDLEMU_NORMAL  // standard deviation Value
	Pareto   JitterKind = C.DDLEMU_PARETO  // shape 3, shifted to start at 0, mean Value
	Table    JitterKind = C.DDLEMU_TABLE   // the caller's quantiles, times Value
)

// JitterTableSize is the number of quantiles in a jitter table.
const JitterTableSize = 4096

// jitterUnit is the fixed-point unit of a table entry: 1.0 = 2^16.
const jitterUnit = 1 << 16

// Jitter describes the variation of a hop's latency. The latency of a segment is never
// below zero, and segments stay in order.
type Jitter struct {
	Kind  JitterKind
	Value time.Duration
}

// JitterParams is Jitter prepared for the engine.
type JitterParams struct {
	Value int64 // ns
	Kind  JitterKind
	_     uint32
}

func (j Jitter) params(k int64) (JitterParams, error) {
	if j.Kind > Table {
		return JitterParams{}, fmt.Errorf("jitter kind %d: unknown", j.Kind)
	}
	if j.Value < 0 || j.Value > MaxLatency {
		return JitterParams{}, fmt.Errorf("jitter %v: must be 0 to %v", j.Value, MaxLatency)
	}
	return JitterParams{Kind: j.Kind, Value: int64(j.Value) * k}, nil
}

// JitterTable is a table of quantiles in units of 2^-16 of Jitter.Value:
// entry i is the quantile at (i + 1/2) / JitterTableSize.
type JitterTable [JitterTableSize]int32

// NormalTable is the standard normal distribution.
func NormalTable() *JitterTable {
	return quantiles(func(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) })
}

// ParetoTable is the Pareto distribution of shape 3, shifted to start at 0 and
// scaled to mean 1: x = 2*((1-p)^(-1/3) - 1).
func ParetoTable() *JitterTable {
	return quantiles(func(p float64) float64 { return 2 * (math.Pow(1-p, -1.0/3) - 1) })
}

func quantiles(inverse func(float64) float64) *JitterTable {
	var t JitterTable
	for i := range t {
		t[i] = int32(math.Round(inverse((float64(i)+0.5)/JitterTableSize) * jitterUnit))
	}
	return &t
}

// JitterTables are the quantiles of Normal, Pareto and Table.
type JitterTables [3]JitterTable

// NewJitterTables returns the tables of a fabric. table is the table of the kind Table; nil if no hop has
// that kind of jitter.
func NewJitterTables(table *JitterTable) *JitterTables {
	t := &JitterTables{*NormalTable(), *ParetoTable()}
	if table != nil {
		t[2] = *table
	}
	return t
}

// sample turns a draw into jitter in ns.
func (j *JitterParams) sample(draw uint64, tables *JitterTables) int64 {
	var table *C.int32_t
	if j.Kind >= Normal {
		table = (*C.int32_t)(unsafe.Pointer(&tables[j.Kind-Normal]))
	}
	return int64(C.jitter_of((*C.struct_ddlemu_jitter)(unsafe.Pointer(j)), C.uint64_t(draw), table))
}
