// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersion(t *testing.T) {
	tests := []struct {
		in   Version
		nccl int // -1: refused
		line string
	}{
		{"2.22.3-1-1", 22203, "2.22"},
		{"2.29.7-1-1", 22907, "2.29"},
		{"2.30.4-1", 23004, "2.30"},
		{"3.0.0", 30000, "3.0"},
		{"2.22", -1, "2.22"},
		{"2.22.x-1", -1, "2.22"},
		{"2.100.1-1", -1, "2.100"},
		{"", -1, ""},
	}
	for _, tt := range tests {
		got, err := tt.in.NCCL()
		if err != nil {
			got = -1
		}
		if got != tt.nccl {
			t.Errorf("%q: NCCL() = %d, %v, want %d", tt.in, got, err, tt.nccl)
		}
		if line := tt.in.Line(); line != tt.line {
			t.Errorf("%q: Line() = %q, want %q", tt.in, line, tt.line)
		}
	}
}

func TestNewestPackage(t *testing.T) {
	supported := func(nccl int) bool { return nccl == 22203 || nccl == 22907 }
	any := func(Version) bool { return true }
	tests := []struct {
		name    string
		all     []Candidate
		wanted  func(Version) bool
		want    Candidate
		refused []Version
		ok      bool
	}{
		{"nothing there", nil, any, Candidate{}, nil, false},
		{"as today", []Candidate{{"2.22.3-1-1", "trixie"}, {"2.29.7-1-1", "sid"}}, any, Candidate{"2.29.7-1-1", "sid"},
			nil, true},
		{"sid moved on", []Candidate{{"2.31.1-1-1", "sid"}, {"2.29.7-1-1", "cache"}}, any,
			Candidate{"2.29.7-1-1", "cache"}, []Version{"2.31.1-1-1"}, true},
		{"sid moved on, nothing cached", []Candidate{{"2.31.1-1-1", "sid"}}, any, Candidate{}, []Version{"2.31.1-1-1"},
			false},
		{"older unknown ones are no news", []Candidate{{"2.28.1-1-1", "a"}, {"2.29.7-1-1", "b"}}, any,
			Candidate{"2.29.7-1-1", "b"}, nil, true},
		{"other line", []Candidate{{"2.29.7-1-1", "sid"}, {"2.22.3-1-1", "trixie"}},
			func(v Version) bool { return v.Line() == "2.22" }, Candidate{"2.22.3-1-1", "trixie"}, nil, true},
		{"newer packaging wins", []Candidate{{"2.22.3-1-1", "a"}, {"2.22.3-1-2", "b"}}, any,
			Candidate{"2.22.3-1-2", "b"}, nil, true},
		{"first of equals", []Candidate{{"2.22.3-1-1", "a"}, {"2.22.3-1-1", "b"}}, any, Candidate{"2.22.3-1-1", "a"},
			nil, true},
		{"unreadable", []Candidate{{"nightly", "x"}}, any, Candidate{}, []Version{"nightly"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, refused, ok := newest(tt.all, tt.wanted, supported)
			var names []Version
			for _, r := range refused {
				names = append(names, r.Version)
				if r.Reason == "" {
					t.Errorf("%s is refused for no reason", r.Version)
				}
			}
			if got != tt.want || ok != tt.ok || !cmp.Equal(names, tt.refused) {
				t.Errorf("got %v, refused %v, %v; want %v, refused %v, %v", got, names, ok, tt.want, tt.refused, tt.ok)
			}
		})
	}
}
