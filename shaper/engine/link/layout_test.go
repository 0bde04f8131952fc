// SPDX-License-Identifier: Apache-2.0

package link

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
	"github.com/ddlemu/ddlemu/shaper/internal/layouttest"
)

func TestLayouts(t *testing.T) {
	if err := layouttest.CompareAll([][2]reflect.Type{
		{reflect.TypeFor[Params](), ctest.Struct["params"]},
		{reflect.TypeFor[Hop](), ctest.Struct["hop"]},
		{reflect.TypeFor[Transport](), ctest.Struct["transport"]},
		{reflect.TypeFor[Block](), ctest.Struct["block"]},
		{reflect.TypeFor[HopRecord](), ctest.Struct["hop_record"]},
	}); err != nil {
		t.Error(err)
	}
}

func TestPropertyDrawIsTheSameInC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, flow, n := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "flow"), rapid.Uint64().Draw(t, "n")
		hop, kind := rapid.Uint32().Draw(t, "hop"), rapid.Uint32Range(0, 9).Draw(t, "kind")
		if a, b := Draw(seed, hop, kind, flow, n), ctest.Draw(seed, hop, kind, flow, n); a != b {
			t.Fatalf("%x in Go, %x in C", a, b)
		}
	})
}
