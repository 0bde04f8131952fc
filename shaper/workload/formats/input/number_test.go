// SPDX-License-Identifier: Apache-2.0

package input

import "testing"

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "25165824": 25165824, "25165824.0": 25165824, "1e3": 1000, "4.2": 5, "9223372036854775807": 1<<63 - 1,
		"": -1, "-1": -1, "-0.5": -1, "x": -1, "nan": -1, "inf": -1, "1e17": -1,
	} {
		n, err := Number(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || n != want) {
			t.Errorf("%q: %d, %v, want %d", text, n, err, want)
		}
	}
}
