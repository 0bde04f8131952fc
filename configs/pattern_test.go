// SPDX-License-Identifier: Apache-2.0

package configs

import "testing"

func TestPatternPrintsAsItReads(t *testing.T) {
	for text, want := range map[string]string{
		"*": "*", "*:*": "*:*", "0": "node0", "node0:1": "node0:node1", "node0>node1": "node0>node1",
		" node0 : node1.nic2 ": "node0:node1.nic2", "*.nic1:*.nic1": "*.nic1:*.nic1", "node3.*": "node3",
	} {
		p, err := ParsePattern(text)
		if err != nil || p.String() != want {
			t.Errorf("ParsePattern(%q) = %q, %v; want %q", text, p, err, want)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"node0:node1", "node0>1", "*.nic1:*.nic1", "*", "node0.nic1", "node00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePattern(s)
		if err != nil {
			return
		}
		if again, err := ParsePattern(p.String()); err != nil || again != p {
			t.Errorf("%q prints as %q, which reads as %+v, %v; want %+v", s, p, again, err, p)
		}
	})
}
