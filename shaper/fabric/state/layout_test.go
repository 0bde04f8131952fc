// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"reflect"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
	"github.com/ddlemu/ddlemu/shaper/internal/layouttest"
)

func TestBuckets(t *testing.T) {
	for late, want := range map[int64]int{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 1, 7: 7, 8: 8, 9: 8, 10: 9, 15: 11, 16: 12, 1000: 35, 1024: 36, 1e6: 75,
		1e9:     115,
		1 << 32: 124, 1<<33 - 1: 127, 1 << 33: 127, math.MaxInt64: LateBuckets - 1,
	} {
		if got := Bucket(late); got != want {
			t.Errorf("%d ns is in bucket %d, want %d", late, got, want)
		}
	}
	for b := 1; b < LateBuckets; b++ {
		if BucketFloor(b) <= BucketFloor(b-1) {
			t.Errorf("bucket %d begins at %d, the one before at %d", b, BucketFloor(b), BucketFloor(b-1))
		}
		if Bucket(BucketFloor(b)) != b || Bucket(BucketFloor(b)-1) != b-1 {
			t.Errorf("bucket %d: %d ns is in %d, 1 ns less in %d", b, BucketFloor(b), Bucket(BucketFloor(b)),
				Bucket(BucketFloor(b)-1))
		}
	}
}

// A lateness lies in its bucket, and the bucket is at most a quarter wide.
func TestPropertyBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		late := rapid.Int64Range(0, math.MaxInt64).Draw(t, "late") >> rapid.IntRange(0, 62).Draw(t, "shift")
		b := Bucket(late)
		if b < 0 || b >= LateBuckets || late < BucketFloor(b) {
			t.Fatalf("%d ns is in bucket %d from %d", late, b, BucketFloor(b))
		}
		if b < LateBuckets-1 && late >= BucketFloor(b+1) {
			t.Fatalf("%d ns is in bucket %d, but the next begins at %d", late, b, BucketFloor(b+1))
		}
		if b < LateBuckets-1 && b >= 8 && 4*(BucketFloor(b+1)-BucketFloor(b)) > BucketFloor(b) {
			t.Fatalf("bucket %d is wider than a quarter", b)
		}
	})
}

// Go and C agree about the file.
func TestLayoutInC(t *testing.T) {
	if err := layouttest.CompareAll([][2]reflect.Type{
		{reflect.TypeFor[header](), ctest.Struct["header"]},
		{reflect.TypeFor[gpuEntry](), ctest.Struct["gpu"]},
		{reflect.TypeFor[NodeTime](), ctest.Struct["node_time"]},
		{reflect.TypeFor[node.SendCost](), ctest.Struct["send_cost"]},
		{reflect.TypeFor[node.GPUGroup](), ctest.Struct["gpu_group"]},
		{reflect.TypeFor[link.PlannedChange](), ctest.Struct["planned_change"]},
		{reflect.TypeFor[Class](), ctest.Struct["class"]},
		{reflect.TypeFor[Pauses](), ctest.Struct["pauses"]},
		{reflect.TypeFor[LinkStats](), ctest.Struct["link_stats"]},
	}); err != nil {
		t.Error(err)
	}
}

// The header fits on its page, and entries that processes write at once do not
// share words.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(header{}); n > page {
		t.Errorf("the header has %d bytes, a page %d", n, page)
	}
	for name, size := range map[string]uintptr{
		"hop": unsafe.Sizeof(link.Hop{}), "job": unsafe.Sizeof(jobEntry{}),
		"participant": unsafe.Sizeof(participantEntry{}), "event": unsafe.Sizeof(eventEntry{}),
	} {
		if size%64 != 0 {
			t.Errorf("a %s has %d bytes, not a multiple of 64", name, size)
		}
	}
	for name, size := range map[string]uintptr{"path": unsafe.Sizeof(pathEntry{}), "block": unsafe.Sizeof(link.Block{}),
		"link statistics": unsafe.Sizeof(LinkStats{}), "snapshot": unsafe.Sizeof(Snapshot{})} {
		if size%8 != 0 {
			t.Errorf("a %s has %d bytes, not a multiple of 8", name, size)
		}
	}
}
