// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/link"
)

func TestChoose(t *testing.T) {
	none := ErrNotSupported
	here := map[string]error{"fq": none, "netem": none}
	for _, c := range []struct {
		name    string
		asked   string
		latency time.Duration
		kernel  map[string]error
		want    string // the shaper, or part of the error
		why     string
	}{
		{"a distribution's kernel", configs.AutoShaper, time.Millisecond, nil, "edt", ""},
		{"no BPF", "", time.Millisecond, map[string]error{BPF: none, DepartureTimes: none}, "netem", ", not edt"},
		{"old BPF", "", time.Millisecond, map[string]error{DepartureTimes: none}, "netem", ", not edt"},
		{"no delay, none asked for", "", 0, here, "htb", ", not edt, netem"},
		{"no delay", "", time.Millisecond, here, "wire", ", not edt, netem, htb"},
		{"nothing", "", 0, map[string]error{"fq": none, "netem": none, "htb": none}, "no shaper is available", ""},
		{"asked for", configs.HTBShaper, 0, nil, "htb", ""},
		{"asked for too much", configs.HTBShaper, time.Millisecond, nil, "shaper htb: node0:node1: not available: htb delays nothing", ""},
		{"asked for what is not there", configs.EDTShaper, 0, here, "shaper edt: not available: it needs fq: not in this kernel; --shaper auto", ""},
		{"asked for netem", configs.NetemShaper, 0, here, "shaper netem: not available: it needs netem", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := configs.Load(configs.Source{Profile: "eth1"})
			if err != nil {
				t.Fatal(err)
			}
			config.Link.Latency = c.latency
			f, err := fabric.New(config)
			if err != nil {
				t.Fatal(err)
			}
			k, why, err := choose(c.asked, f, KnownKernel(c.kernel))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || !errors.Is(err, tc.ErrUnavailable) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if k.name != c.want || why != c.why {
				t.Errorf("%s%s, want %s%s", k.name, why, c.want, c.why)
			}
		})
	}
}

// A link that is shaped live is refused where its shaper cannot do it.
func TestCheckLink(t *testing.T) {
	delayed := link.Spec{Latency: time.Millisecond}
	for _, k := range kinds {
		if err := CheckLink(k.name, delayed); (err != nil) != (k.name == configs.HTBShaper) {
			t.Errorf("shaper %s, latency: %v", k.name, err)
		}
	}
}

// Whatever this kernel has, each shaper is started or refused by name.
func TestFindings(t *testing.T) {
	for _, f := range Findings(&Kernel{}) {
		if f.Err != nil && !errors.Is(f.Err, tc.ErrUnavailable) {
			t.Errorf("%s: %v", f.Name, f.Err)
		}
		t.Logf("%s: %v", f.Name, f.Err)
	}
}
