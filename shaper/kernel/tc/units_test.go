// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

func TestHTBRefuses(t *testing.T) {
	for name, s := range map[string]link.Spec{
		"latency": {Latency: time.Millisecond},
		"jitter":  {Jitter: link.Jitter{Kind: link.Uniform, Value: 1}},
	} {
		if err := CheckHTB(s); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckHTB(link.Spec{Bandwidth: 1e9}); err != nil {
		t.Error(err)
	}
}

func TestFrameRate(t *testing.T) {
	spec := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
	for _, c := range []struct {
		rate  uint64
		scale int
		want  uint64
	}{
		{1_000_000_000, 1, 123_049_415}, // 125e6 x 1514 / 1538
		{1_000_000_000, 10, 12_304_941},
		{0, 1, unlimited},
	} {
		spec.Bandwidth = c.rate
		if got, err := frameRate(spec, c.scale); err != nil || got != c.want {
			t.Errorf("%d at scale %d: %d bytes/s, want %d, %v", c.rate, c.scale, got, c.want, err)
		}
	}
	if got := validRate(2 << 32); got != 2<<32+1 {
		t.Errorf("validRate: %d", got)
	}
}
