// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"strings"
	"testing"
	"time"
)

func TestClockSettings(t *testing.T) {
	usual := ClockSettings{ComputeHold: 10 * time.Second, OnDeadlock: DeadlockError}
	for _, tc := range []struct {
		env  map[string]string
		want ClockSettings
		says string // part of the error
	}{
		{env: nil, want: usual},
		{env: map[string]string{ComputeEnv: "none"}, want: usual},
		{env: map[string]string{ComputeEnv: "cpu:0.5", ComputeHoldEnv: "1m", OnDeadlockEnv: "wait"},
			want: ClockSettings{0.5, time.Minute, DeadlockWait}},
		{env: map[string]string{ComputeEnv: "cpu"}, says: "DDLEMU_COMPUTE: \"cpu\" is neither none nor cpu:FACTOR"},
		{env: map[string]string{ComputeEnv: "cpu:0"}, says: "above 0"},
		{env: map[string]string{ComputeEnv: "cpu:NaN"}, says: "above 0"},
		{env: map[string]string{ComputeEnv: "cpu:1e9"}, says: "up to 10000"},
		{env: map[string]string{ComputeHoldEnv: "-1s"}, says: "DDLEMU_COMPUTE_HOLD: \"-1s\" is not a time above 0"},
		{env: map[string]string{OnDeadlockEnv: "hope"}, says: "DDLEMU_ON_DEADLOCK: \"hope\" is not one of error, wait"},
	} {
		got, err := ReadClockSettings(func(name string) string { return tc.env[name] })
		switch {
		case tc.says == "" && (err != nil || got != tc.want):
			t.Errorf("%v: %+v, %v, want %+v", tc.env, got, err, tc.want)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%v: %v, want %q", tc.env, err, tc.says)
		}
	}
}
