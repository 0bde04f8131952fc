// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Variables of a job on a virtual clock.
const (
	ComputeEnv     = "DDLEMU_COMPUTE"
	ComputeHoldEnv = "DDLEMU_COMPUTE_HOLD"
	OnDeadlockEnv  = "DDLEMU_ON_DEADLOCK"
)

// What a deadlock on a virtual clock is.
const (
	DeadlockError = "error" // who waits fails
	DeadlockWait  = "wait"  // somebody may yet end it
)

// ClockSettings are how a job takes part in a virtual clock.
type ClockSettings struct {
	// Compute is the virtual time that a program's threads take per CPU time; 0: they take none.
	Compute float64
	// ComputeHold is how long the clock waits, in real time, for a thread that runs outside of
	// calls of CUDA and NCCL.
	ComputeHold time.Duration
	OnDeadlock  string // DeadlockError or DeadlockWait
}

// maxCompute is the largest factor of ClockSettings.Compute: a day of CPU time stays far below
// the largest time.
const maxCompute = 10000

// ReadClockSettings reads the settings from variables; variables that are not set or empty have
// their default.
func ReadClockSettings(getenv func(string) string) (s ClockSettings, err error) {
	s = ClockSettings{ComputeHold: 10 * time.Second, OnDeadlock: DeadlockError}
	if text := getenv(ComputeEnv); text != "" {
		if s.Compute, err = parseCompute(text); err != nil {
			return s, fmt.Errorf("%s: %w", ComputeEnv, err)
		}
	}
	if text := getenv(ComputeHoldEnv); text != "" {
		if s.ComputeHold, err = time.ParseDuration(text); err != nil || s.ComputeHold <= 0 {
			return s, fmt.Errorf("%s: %q is not a time above 0, such as 30s", ComputeHoldEnv, text)
		}
	}
	if text := getenv(OnDeadlockEnv); text != "" {
		if s.OnDeadlock, err = oneOf(text, []string{DeadlockError, DeadlockWait}); err != nil {
			return s, fmt.Errorf("%s: %w", OnDeadlockEnv, err)
		}
	}
	return s, nil
}

// parseCompute reads "none" or "cpu:FACTOR".
func parseCompute(s string) (float64, error) {
	if s == "none" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(s, "cpu:")
	factor, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || math.IsNaN(factor) || factor <= 0 || factor > maxCompute {
		return 0, fmt.Errorf("%q is neither none nor cpu:FACTOR with a factor above 0 and up to %d, such as cpu:1.5", s,
			maxCompute)
	}
	return factor, nil
}
