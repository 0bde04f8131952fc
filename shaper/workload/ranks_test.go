// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestRanks(t *testing.T) {
	for text, want := range map[string]Ranks{
		"3": {3}, "0-3": {0, 1, 2, 3}, "0-8:4": {0, 4, 8}, "1,0": {1, 0}, "0,4": {0, 4}, "5,0-2,9": {5, 0, 1, 2, 9},
	} {
		got, err := ParseRanks(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%v is written as %s, want %s", got, got, text)
		}
	}
	for _, text := range []string{"", "-1", "3-1", "a", "0-4:0", "4:2", "0,,1", "0-99999999", "0--1"} {
		if got, err := ParseRanks(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestRanksJSON(t *testing.T) {
	for _, want := range []Ranks{{3}, {0, 1}, {7, 3, 5}} {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Ranks
		if err := json.Unmarshal(data, &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", data, got, err, want)
		}
	}
}
