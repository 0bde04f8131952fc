// SPDX-License-Identifier: Apache-2.0

package units

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 7: "7ns", 999: "999ns", 1000: "1us", 1234: "1.23us", 12345: "12.3us", 123456: "123us", 999_600: "1ms",
		1234567: "1.23ms", 4_194_304: "4.19ms",
		999_499_000: "999ms", 999_600_000: "1s", 9_690 * time.Millisecond: "9.69s", 59_999 * time.Millisecond: "1m0s",
		90 * time.Second: "1m30s",
	} {
		if got := Short(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
