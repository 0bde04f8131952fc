// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestReadSettings(t *testing.T) {
	ordinary := settings{memory: defaultMemory, streams: defaultStreams}
	for _, tc := range []struct {
		variable, value string
		ranks           int
		want            settings
		says            string // the error
	}{
		{want: ordinary},
		{ranks: 8, want: ordinary},
		{ranks: 32, want: settings{memory: jobMemory / 32, streams: defaultStreams}},
		{variable: memoryEnv, value: "1MiB", ranks: 32, want: settings{memory: 1 << 20, streams: defaultStreams}},
		{variable: memoryEnv, value: "much", says: `DDLEMU_MEMORY: `},
		{variable: streamsEnv, value: "8", want: settings{memory: defaultMemory, streams: 8}},
		{variable: streamsEnv, value: "99", says: `DDLEMU_STREAMS: "99" is not a number of streams: must be 1 to 8`},
		{variable: streamsEnv, value: "0", says: `DDLEMU_STREAMS: "0" is not`},
		{variable: togetherEnv, value: "1", want: settings{memory: defaultMemory, streams: defaultStreams,
			together: true}},
		{variable: togetherEnv, value: "yes", says: `DDLEMU_FAIL_TOGETHER: "yes" is neither 0 nor 1`},
		{variable: abortEnv, value: "1", want: settings{memory: defaultMemory, streams: defaultStreams, abort: true}},
		{variable: abortEnv, value: "0", want: ordinary},
		{variable: abortEnv, value: "maybe", says: `DDLEMU_ABORT_ON_ERROR: "maybe" is neither 0 nor 1`},
		{variable: ipv6Env, value: "1", want: settings{memory: defaultMemory, streams: defaultStreams, ipv6: true}},
		{variable: ipv6Env, value: "6", says: `DDLEMU_IPV6: "6" is neither 0 nor 1`},
	} {
		getenv := func(name string) string {
			if name == tc.variable {
				return tc.value
			}
			return ""
		}
		got, err := readSettings(getenv, tc.ranks)
		switch {
		case tc.says == "" && (err != nil || got != tc.want):
			t.Errorf("%s=%q, %d ranks: %+v, %v, want %+v", tc.variable, tc.value, tc.ranks, got, err, tc.want)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s=%q: error %v, want %q", tc.variable, tc.value, err, tc.says)
		}
	}
}

func TestExpectedExit(t *testing.T) {
	for _, tc := range []struct {
		text string
		rank int
		want int
		says string // the error
	}{
		{"", 0, 0, ""}, {"0", 0, 1, ""}, {"3,1", 1, 2, ""}, {"3,1", 2, 0, ""}, {"1,1", 1, 1, ""}, {"5", -1, 0, ""},
		{"x", 0, 0, `DDLEMU_EXPECT_EXIT: "x" is not a rank`}, {"1,", 1, 0, `DDLEMU_EXPECT_EXIT: "" is not a rank`},
		{"-1", 0, 0, `DDLEMU_EXPECT_EXIT: "-1" is not a rank`}, {strings.Repeat("1,", 64) + "1", 1, 0,
			"DDLEMU_EXPECT_EXIT: 65 ranks: at most 64"},
	} {
		got, err := expectedExit(func(string) string { return tc.text }, tc.rank)
		if got != tc.want || (tc.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q, rank %d: %d, %v, want %d, %q", tc.text, tc.rank, got, err, tc.want, tc.says)
		}
	}
}
