// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"slices"
	"strings"
)

// Clocks: what the time of a fabric is.
const (
	RealClock    = "real"    // the host's, times the time scale
	VirtualClock = "virtual" // time that moves only while all ranks wait; needs the software CUDA and datapath shm
)

var clocks = []string{RealClock, VirtualClock}

// ParseClock reads RealClock or VirtualClock.
func ParseClock(s string) (string, error) { return oneOf(s, clocks) }

// ClockName is the fabric's clock, RealClock or VirtualClock.
func (f *Fabric) ClockName() string { return cmp.Or(f.Clock, RealClock) }

// IsVirtual reports whether the fabric's clock is virtual.
func (f *Fabric) IsVirtual() bool { return f.Clock == VirtualClock }

// TakesVirtualClock reports whether a run on a fabric of its own has a virtual clock: one was chosen, or nothing is
// said about the clock or the time scale and a virtual one is possible, with the software CUDA and without the kernel.
func (f *Fabric) TakesVirtualClock(softCUDA bool) bool {
	return f.IsVirtual() || softCUDA && f.Clock == "" && f.TimeScale == 0 && !f.OnKernel()
}

// validateClock checks that a virtual clock is possible.
func (f *Fabric) validateClock() error {
	switch {
	case f.Clock != "" && !slices.Contains(clocks, f.Clock):
		return Errorf("clock", "%q is not one of %s", f.Clock, strings.Join(clocks, ", "))
	case !f.IsVirtual():
		return nil
	case f.OnKernel():
		return Errorf("clock",
			"virtual with the datapath kernel: real packets have only the real clock: leave out one of the two")
	case f.TimeScale > 1:
		return Errorf("clock", "virtual with time scale %d: a virtual clock needs none; use 1", f.TimeScale)
	}
	return nil
}
