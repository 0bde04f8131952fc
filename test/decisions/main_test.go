// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
)

var (
	heading = regexp.MustCompile(`^### NCCL (2\.[0-9]+)\.[0-9]+, AllReduce, (.*)$`)
	row     = regexp.MustCompile(`^\| ([a-z0-9-]*[a-z0-9][a-z0-9-]*) \| (.*) \|$`)
	choice  = regexp.MustCompile(`^(Ring|Tree|NVLS|NVLSTree) (LL|LL128|Simple) [0-9]+$`)
)

// The page has every profile, kind of GPU and system, with both versions of NCCL: make decisions was run after the last
// one was added.
func TestPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../docs/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	table := ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			table = m[1] + " " + m[2]
		}
		m := row.FindStringSubmatch(line)
		if table == "" || m == nil || m[1] == "profile" || m[1] == "system" || strings.Trim(m[1], "-") == "" {
			continue
		}
		got[table] = append(got[table], m[1])
		for _, c := range strings.Split(m[2], " | ") {
			if !choice.MatchString(c) {
				t.Errorf("%s, %s: %q is no choice", table, m[1], c)
			}
		}
	}
	want := map[string][]string{}
	for _, version := range locate.SoftVersions {
		want[version+" 2 nodes of one GPU"] = slices.DeleteFunc(configs.ProfileNames(), func(name string) bool {
			c, err := configs.Profile(name)
			return err != nil || 2*c.NICsPerNode > mostNICs
		})
		want[version+" 4 nodes of one GPU"] = want[version+" 2 nodes of one GPU"]
		want[version+" kinds of GPUs: 2 nodes of 4 GPUs and 4 NICs of ndr400"] = configs.GPUNames()
		want[version+" systems: 2 nodes with all their GPUs"] = configs.SystemNames()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/decisions.md: run make decisions (-want +got):\n%s", d)
	}
}
