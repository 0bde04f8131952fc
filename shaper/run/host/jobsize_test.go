// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

func TestDemandOf(t *testing.T) {
	for _, c := range []struct {
		profile string
		change  func(*configs.Fabric)
		ranks   int
		rate    float64 // of one link's payload rate
		t       time.Duration
	}{
		// One byte is a packet of 1 + 78 line bytes, 632 ns at 1 Gb/s.
		{"eth1", nil, 2, 1, 25*time.Microsecond + 632},
		{"eth1", nil, 8, 1, 25*time.Microsecond + 632},
		{"eth1", func(f *configs.Fabric) { f.Endpoint.Overhead = time.Microsecond }, 2, 1, 27*time.Microsecond + 632},
		{"efa-p4d", nil, 2, 4, 0},  // a rank with four NICs
		{"efa-p4d", nil, 4, 2, 0},  // two ranks share them
		{"efa-p4d", nil, 16, 1, 0}, // more ranks than NICs: one NIC at least
		{"loopback", nil, 2, 0, 0},
	} {
		cfg, err := configs.Profile(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(cfg)
		}
		fab, err := fabric.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		d := JobSize{fab, c.ranks, 1}.Demand()
		if want := c.rate * cfg.Link.PayloadRate(); math.Abs(d.Rate-want) > 1 {
			t.Errorf("%s, %d ranks: %g B/s each, want %g", c.profile, c.ranks, d.Rate, want)
		}
		if c.t != 0 && d.T != c.t {
			t.Errorf("%s, %d ranks: messages of %v, want %v", c.profile, c.ranks, d.T, c.t)
		}
	}
}

// One link that is faster or shorter decides.
func TestDemandOfTheMostDemandingLink(t *testing.T) {
	cfg, err := configs.Profile("eth10")
	if err != nil {
		t.Fatal(err)
	}
	near := 3 * time.Microsecond
	cfg.Links = []configs.LinkOverride{{Match: "node0>node1", LinkPatch: configs.LinkPatch{Latency: &near}}}
	fab, err := fabric.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d := (JobSize{fab, 2, 1}).Demand(); d.T < near || d.T > near+time.Microsecond {
		t.Errorf("messages of %v, want a little over %v", d.T, near)
	}
}

func TestMessageSize(t *testing.T) {
	for _, c := range []struct {
		size  int64
		ranks int
		want  uint32
	}{{0, 2, 1}, {8, 2, 4}, {1 << 10, 4, 256}, {1 << 20, 2, 64 << 10}, {1 << 40, 2, 64 << 10}} {
		if got := MessageSize(c.size, c.ranks); got != c.want {
			t.Errorf("%d bytes on %d ranks: messages of %d, want %d", c.size, c.ranks, got, c.want)
		}
	}
}

// The refusal says what the host lacks, and what to do.
func TestNoScale(t *testing.T) {
	_, _, slow := Scale(hostOf(1e12, 1e9), Demand{Rate: 1e9, T: time.Microsecond}, VerdictLimits())
	err := noScale(slow, "the nearest profile that fits is eth1; or ")
	const want = "too few cores, or other work on them, even at time scale 1024"
	if text := err.Error(); !errors.Is(err, slow) || !strings.HasPrefix(text, "this host has "+want) ||
		!strings.HasSuffix(text,
			": the nearest profile that fits is eth1; or give --set time_scale=K to run it all the same") {
		t.Error(err)
	}
}
