// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// loadFaults is eth10 on 2 nodes with a file of faults.
func loadFaults(t *testing.T, text string) (*Fabric, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte("faults:\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := ParseSet("@" + file)
	if err != nil {
		t.Fatal(err)
	}
	return Load(Source{Profile: "eth10", Sets: []Set{set}, Getenv: func(string) string { return "" }})
}

func TestFaultsOfAFile(t *testing.T) {
	f, err := loadFaults(t, `  - {at: 3ms, for: 2ms, match: "node0:node1", up: false}
  - {at: 1s, match: node1, rate: 0.25, add_latency: 3us}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Faults) != 2 || f.Faults[0].At != 3*time.Millisecond || f.Faults[0].End() != 5*time.Millisecond ||
		*f.Faults[0].Up || f.Faults[1].Match != "node1" ||
		!strings.HasSuffix(f.Faults[1].Where, "plan.yaml:3") {
		t.Errorf("%+v", f.Faults)
	}
	l := Link{Bandwidth: 10 * units.Gbps, Latency: 5 * time.Microsecond}
	p := f.Faults[1].Patch(&l)
	if *p.Bandwidth != 2500*units.Mbps || *p.Latency != 8*time.Microsecond || p.Up != nil {
		t.Errorf("%v %v", *p.Bandwidth, *p.Latency)
	}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode("f", text); err != nil || len(back.Faults) != 2 || back.Faults[1].Rate != 0.25 {
		t.Errorf("read back: %v", err)
	}
}

// Each mistake is told with its line and the next step.
func TestFaultsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`  - {at: 3ms, match: "node0:node1"}`:                                        "plan.yaml:2: faults[0]: changes nothing",
		`  - {match: "node0:node1", up: false}`:                                      "plan.yaml:2: faults[0].at: 0s is out of range",
		`  - {at: -1s, match: "node0:node1", up: false}`:                             "plan.yaml:2: faults[0].at: ",
		`  - {at: 1s, for: -1s, match: "node0:node1", up: false}`:                    "plan.yaml:2: faults[0].for: ",
		`  - {at: 1s, match: "node0:node7", up: false}`:                              "plan.yaml:2: faults[0].match: ",
		`  - {at: 1s, up: false}`:                                                    "plan.yaml:2: faults[0].match: missing",
		`  - {at: 1s, match: node0, rate: 2}`:                                        "plan.yaml:2: faults[0].rate: 2 is out of range",
		`  - {at: 1s, match: node0, rate: 0.5, bandwidth: 1Gbps}`:                    "plan.yaml:2: faults[0].rate: given with bandwidth",
		`  - {at: 1s, match: node0, add_latency: 1us, latency: 1us}`:                 "plan.yaml:2: faults[0].add_latency: given with latency",
		"  - {at: 1s, match: node0, rate: 0.5}\n  - {at: 2s, match: node0, mtu: 10}": "plan.yaml:3: faults[1].mtu: ",
		"  - {at: 1s, match: node0, rate: 0.5, when: 3}":                             `plan.yaml:2: faults[0]: "when" is not a key here`,
	} {
		if _, err := loadFaults(t, text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}
