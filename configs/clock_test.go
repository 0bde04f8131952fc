// SPDX-License-Identifier: Apache-2.0

package configs

import "testing"

// The clock of a run is virtual if it was chosen, or if nothing speaks against it.
func TestTakesVirtualClock(t *testing.T) {
	for _, tc := range []struct {
		f    Fabric
		soft bool
		want bool
	}{
		{Fabric{}, true, true},
		{Fabric{}, false, false},
		{Fabric{TimeScale: 1}, true, false},
		{Fabric{Datapath: Kernel}, true, false},
		{Fabric{Clock: RealClock}, true, false},
		{Fabric{Clock: VirtualClock}, false, true},
		{Fabric{Clock: VirtualClock, TimeScale: 1}, true, true},
	} {
		if got := tc.f.TakesVirtualClock(tc.soft); got != tc.want {
			t.Errorf("clock %q, time scale %d, datapath %q, software CUDA %v: %v, want %v", tc.f.Clock, tc.f.TimeScale,
				tc.f.Datapath, tc.soft, got, tc.want)
		}
	}
}
