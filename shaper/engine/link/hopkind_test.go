// SPDX-License-Identifier: Apache-2.0

package link

import "testing"

func TestHopKinds(t *testing.T) {
	for kind, want := range map[HopKind]struct {
		name            string
		within, out, in bool
	}{
		TxPort: {"tx", false, false, false}, RxPort: {"rx", false, false, false}, Link: {"link", false, false, false},
		Trunk: {"trunk", false, false, false}, GPUOut: {"gpu", true, true, false}, GPUIn: {"gpu", true, false, true},
		GPULink: {"gpu", true, false, false}, PCIOut: {"pci", true, true, false}, PCIIn: {"pci", true, false, true},
		CPUOut: {"cpu", true, true, false}, CPUIn: {"cpu", true, false, true},
	} {
		if !kind.Known() || kind.Name() != want.name || kind.IsWithinNode() != want.within || kind.IsOut() != want.out ||
			kind.IsIn() != want.in {
			t.Errorf("kind %d: %t, %s, within %t, out %t, in %t; want %+v", kind, kind.Known(), kind.Name(),
				kind.IsWithinNode(), kind.IsOut(), kind.IsIn(), want)
		}
	}
	for kind := range HopKind(len(kinds)) {
		if kind.Name() == "" {
			t.Errorf("kind %d has no name", kind)
		}
	}
	if HopKind(len(kinds)).Known() {
		t.Error("a kind after the last one is known")
	}
}
