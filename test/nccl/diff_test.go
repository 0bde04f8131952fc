// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// diffTimes is one thing in both runs.
type diffTimes struct {
	A int64 `json:"a_ns"`
	B int64 `json:"b_ns"`
}

// compared is what `ddlemu diff --json` prints.
type compared struct {
	A, B     struct{ NCCL string }
	All      diffTimes
	Settings []struct{ Setting, A, B string } `json:"fabric"`
	Choices  []struct{ Function, A, B string }
	Causes   []struct {
		Cause string
		diffTimes
	}
	Notes []string
}

func diffOf(t *testing.T, a, b string) (got compared) {
	t.Helper()
	out, err := ddlemu(t.Context(), t, folder(t), nil, "diff", "--json", a, b).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// What was changed from one run to the next is what diff names first, and it explains the difference.
func TestDiffNamesTheChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, more := range map[string][]string{
		"before": nil,
		"again":  nil,
		"far":    {"--lat", "50us"},
		"narrow": {"--bw", "50Gbps"},
	} {
		args := append([]string{"broadcast", "--profile", "ndr400", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "2",
			"-w", "1", "--nccl", "2.29", "--trace", filepath.Join(dir, name)}, more...)
		bench(t, folder(t), []string{"NCCL_ALGO=Ring", "NCCL_PROTO=Simple"}, args...)
	}
	before := filepath.Join(dir, "before")
	if got := diffOf(t, before, filepath.Join(dir, "again")); got.All.A != got.All.B || got.All.A == 0 ||
		len(got.Settings)+len(got.Choices)+len(got.Notes) != 0 {
		t.Errorf("two equal runs on a virtual clock differ: %+v", got)
	}
	for _, tc := range []struct{ run, setting, cause, also string }{
		{"far", "link.latency", "propagation", "propagation"},
		{"narrow", "link.bandwidth", "serializing on node0 tx", "queueing on node0 tx"},
	} {
		got := diffOf(t, before, filepath.Join(dir, tc.run))
		if len(got.Settings) != 1 || got.Settings[0].Setting != tc.setting {
			t.Errorf("%s: settings %v, want %s", tc.run, got.Settings, tc.setting)
		}
		sum, named := int64(0), int64(0)
		for _, c := range got.Causes {
			sum += c.B - c.A
			if strings.HasPrefix(c.Cause, tc.cause) || strings.HasPrefix(c.Cause, tc.also) {
				named += c.B - c.A
			}
		}
		all := got.All.B - got.All.A
		if !strings.HasPrefix(got.Causes[0].Cause, tc.cause) || all <= 0 || sum != all || named < all/2 {
			t.Errorf("%s: %d of %d ns (in all causes %d) are because of %s; first is %+v", tc.run, named, all, sum,
				tc.cause, got.Causes[0])
		}
	}
}

// Both versions of NCCL are named.
func TestDiffNamesNCCL(t *testing.T) {
	t.Parallel()
	var dirs []string
	for _, version := range []string{"2.22", "2.29"} {
		dirs = append(dirs, filepath.Join(t.TempDir(), "t"))
		bench(t, folder(t), nil, "broadcast", "--profile", "ndr400", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1",
			"-w", "0", "--nccl", version, "--trace", dirs[len(dirs)-1])
	}
	if got := diffOf(t, dirs[0], dirs[1]); got.A.NCCL != "2.22.3" || got.B.NCCL != "2.29.7" {
		t.Errorf("NCCL %q and %q", got.A.NCCL, got.B.NCCL)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, "diff", dirs[0], dirs[1]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), dirs[0]+": NCCL 2.22.3; clock: virtual") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestDiffRefusesBadInput(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	bench(t, folder(t), nil, "broadcast", "--profile", "ndr400", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1", "-w",
		"0", "--trace", dir)
	for want, args := range map[string][]string{
		"diff takes two folders": {dir},
		"no ledger in":           {dir, t.TempDir()},
		"--causes -1: must be":   {dir, dir, "--causes", "-1"},
	} {
		out, err := ddlemu(t.Context(), t, folder(t), nil, append([]string{"diff"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("diff %q: %v, want %q:\n%s", args, err, want, out)
		}
	}
}
