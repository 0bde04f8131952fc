// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShareGPUs(t *testing.T) {
	eight := strings.Split("0,1,2,3,4,5,6,7", ",")
	for _, c := range []struct {
		name           string
		perNode, nodes int
		host           []string
		want           []string // per node; nil if CUDA_VISIBLE_DEVICES is not changed
		gpus           int
		warns          bool
	}{
		{"no GPU", 0, 2, nil, nil, 0, false},
		{"no GPU on the host, some in the fabric", 4, 2, nil, nil, 4, false},
		{"as the fabric says", 2, 2, eight, []string{"0,1", "2,3"}, 2, false},
		{"all of them", 0, 2, eight, []string{"0,1,2,3", "4,5,6,7"}, 4, false},
		{"some are not used", 0, 3, eight, []string{"0,1", "2,3", "4,5"}, 2, true},
		{"too few for the fabric", 8, 2, eight, nil, 8, true},
		{"fewer than nodes", 0, 9, eight, nil, 0, true},
		{"the user's", 1, 2, []string{"GPU-7", "5"}, []string{"GPU-7", "5"}, 1, false},
	} {
		s := ShareGPUs(c.perNode, c.nodes, c.host)
		var got []string
		for n := range c.nodes {
			if v, ok := s.Visible(n); ok {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, c.want) || s.PerNode != c.gpus || (s.Warning != "") != c.warns {
			t.Errorf("%s: got %q, %d per node, warning %q", c.name, got, s.PerNode, s.Warning)
		}
	}
}

// No GPU is assigned to two nodes.
func TestShareGPUsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 20).Draw(t, "nodes")
		host := rapid.SliceOfNDistinct(rapid.StringMatching(`[0-9]{3}`), 0, 40, rapid.ID).Draw(t, "host")
		s := ShareGPUs(rapid.IntRange(0, 10).Draw(t, "per node"), nodes, host)
		var all []string
		for n := range nodes {
			if v, ok := s.Visible(n); ok {
				all = append(all, parseDevices(v)...)
			}
		}
		distinct := slices.Compact(slices.Sorted(slices.Values(all)))
		if len(distinct) != len(all) || s.Exclusive && len(all) != nodes*s.PerNode {
			t.Fatalf("%d nodes got %v", nodes, all)
		}
	})
}

func TestHostGPUs(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{VisibleGPUsEnv: "3,1"}, "3 1"},
		{map[string]string{VisibleGPUsEnv: "3, GPU-ab ,-1,2"}, "3 GPU-ab"},
		{map[string]string{VisibleGPUsEnv: ""}, ""},
		{map[string]string{VisibleGPUsEnv: "NoDevFiles"}, ""},
		{map[string]string{VisibleGPUsEnv: "0", HostGPUsEnv: "0,1"}, "0 1"},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		if got := strings.Join(HostGPUs(lookup), " "); got != c.want {
			t.Errorf("%v: got %q, want %q", c.env, got, c.want)
		}
	}
}
