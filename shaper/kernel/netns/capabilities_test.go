// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"slices"
	"testing"
)

func TestMissingCapabilities(t *testing.T) {
	all := []string{"CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"}
	for status, want := range map[string][]string{
		"Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t0000000000001000\n": {"CAP_SYS_ADMIN", "CAP_NET_RAW"},
		"CapEff:\t000001ffffffffff\n":                                      nil,
		"CapEff:\tx\n":                                                     all,
		"":                                                                 all,
	} {
		if got := MissingCapabilities(status); !slices.Equal(got, want) {
			t.Errorf("%q: missing %v, want %v", status, got, want)
		}
	}
}
