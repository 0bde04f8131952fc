// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
)

func TestSelectKind(t *testing.T) {
	none := ErrNotSupported
	inOrder, early := configs.Reorder{}, configs.Reorder{Share: 0.01, Early: time.Microsecond}
	noDelay := map[string]error{"fq": none, "netem": none}
	for _, c := range []struct {
		name      string
		requested string
		latency   time.Duration
		reorder   configs.Reorder
		kernel    map[string]error
		want      string // the shaper, or part of the error
		rejected  string
	}{
		{"a distribution's kernel", configs.AutoShaper, time.Millisecond, inOrder, nil, "edt", ""},
		{"no BPF", "", time.Millisecond, inOrder, map[string]error{BPF: none, DepartureTimes: none}, "netem",
			", not edt"},
		{"old BPF", "", time.Millisecond, inOrder, map[string]error{DepartureTimes: none}, "netem", ", not edt"},
		{"no delay in the kernel, none needed", "", 0, inOrder, noDelay, "htb", ", not edt, netem"},
		{"no delay in the kernel", "", time.Millisecond, inOrder, noDelay, "wire", ", not edt, netem, htb"},
		{"no shaper", "", 0, inOrder, map[string]error{"fq": none, "netem": none, "htb": none},
			"no shaper is available", ""},
		{"reordering", configs.AutoShaper, time.Millisecond, early, nil, "wire", ", not edt, netem, htb"},
		{"reordering without latency", "", 0, early, nil, "wire", ", not edt, netem, htb"},
		{"reordering, no htb", "", 0, early, map[string]error{"htb": none}, "no shaper is available", ""},
		{"by name", configs.HTBShaper, 0, inOrder, nil, "htb", ""},
		{"by name, with a latency", configs.HTBShaper, time.Millisecond, inOrder, nil,
			"shaper htb: node0:node1: not available: htb delays nothing", ""},
		{"by name, not in the kernel", configs.EDTShaper, 0, inOrder, noDelay,
			"shaper edt: not available: it needs fq: not in this kernel; --set shaper=auto", ""},
		{"netem by name", configs.NetemShaper, 0, inOrder, noDelay, "shaper netem: not available: it needs netem", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := configs.Load(configs.Source{Profile: "eth1"})
			if err != nil {
				t.Fatal(err)
			}
			config.Link.Latency, config.Link.Reorder = c.latency, c.reorder
			f, err := fabric.New(config)
			if err != nil {
				t.Fatal(err)
			}
			k, rejected, err := selectKind(c.requested, f, KnownKernel(c.kernel))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || !errors.Is(err, tc.ErrUnavailable) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if k.name != c.want || rejected != c.rejected {
				t.Errorf("%s%s, want %s%s", k.name, rejected, c.want, c.rejected)
			}
		})
	}
}

// Only htb refuses a link with latency, and only wire accepts one that reorders.
func TestCheckLink(t *testing.T) {
	delayed, reordering := link.Spec{Latency: time.Millisecond},
		link.Spec{Reorder: link.Reorder{Share: 0.01, Early: time.Microsecond}}
	for _, k := range kinds {
		if err := CheckLink(k.name, reordering); (err == nil) != (k.name == configs.WireShaper) {
			t.Errorf("shaper %s, reordering: %v", k.name, err)
		}
		if err := CheckLink(k.name, delayed); (err != nil) != (k.name == configs.HTBShaper) {
			t.Errorf("shaper %s, latency: %v", k.name, err)
		}
	}
}

// On every kernel, a shaper is available or its error wraps tc.ErrUnavailable.
func TestList(t *testing.T) {
	for _, f := range List(&Kernel{}) {
		if f.Err != nil && !errors.Is(f.Err, tc.ErrUnavailable) {
			t.Errorf("%s: %v", f.Name, f.Err)
		}
		t.Logf("%s: %v", f.Name, f.Err)
	}
}
