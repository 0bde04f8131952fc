// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer"
	"github.com/ddlemu/ddlemu/configs/importer/found"
)

// NCCL decides on a node that was imported as on the node in the file itself: the same number of channels, the same
// speeds and kinds of paths in each graph. Of the A100 machines of Azure, a GPU's slot carries one of the two NICs on
// its PCI switch.
func TestImportedNodeDecidesAsTheFile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		file, base string
		nvLinks    int
	}{{"p4d-24xl-topo.xml", "efa-p4d", 12}, {"ndv4-topo.xml", "hdr200", 12}} {
		text, err := os.ReadFile(filepath.Join("../../configs/importer/testdata", tc.file))
		if err != nil {
			t.Fatal(err)
		}
		base, err := configs.Profile(tc.base)
		if err != nil {
			t.Fatal(err)
		}
		in, err := importer.Read([]importer.File{{Name: tc.file, Text: string(text)}},
			found.Options{Base: base, Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		in.Config.NVLinksPerGPU = tc.nvLinks
		imported, err := importer.Text(&in.Config, in, []string{tc.file})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		fabric, original := filepath.Join(dir, "fabric.yaml"), filepath.Join(dir, "original.xml")
		if err := os.WriteFile(fabric, imported, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(original, []byte(withSoftwareDevices(string(text), &in.Config)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"2.22", "2.29"} {
			for name, job := range map[string][]string{"whole nodes": {"--ranks", "16"},
				"one GPU of each": {"--ranks", "2", "--set", "gpus_per_node=1"}} {
				t.Run(tc.file+"/"+version+"/"+name, func(t *testing.T) {
					args := append(job, "-F", fabric, "--nccl", version)
					want := graphs(t, []string{"NCCL_TOPO_FILE=" + original}, args...)
					got := graphs(t, nil, args...)
					if !slices.Equal(got, want) {
						t.Errorf("imported: %q\nthe file: %q", got, want)
					}
				})
			}
		}
	}
}

// graphs are what NCCL writes of each graph, without its channels.
func graphs(t *testing.T, env []string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "graph.xml")
	expectIn(ctx, t, append(env, "NCCL_GRAPH_DUMP_FILE="+file), append(args, "-b", "1M", "-e", "1M")...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`<graph [^>]*>`).FindAllString(string(text), -1)
	if len(all) < 2 || !strings.Contains(all[0], `typeinter="PIX"`) {
		t.Fatalf("%q: NCCL did not find the NICs beside the GPUs", all)
	}
	return all
}

var device = regexp.MustCompile(`<pci busid="([^"]*)" class="(0x0[23][^"]*)"([^>]*)/>`)

// withSoftwareDevices is a topology file with software GPUs and emulated NICs in the places of the machine's own, for
// 2 nodes: in each place of a GPU are those of both, of which NCCL finds one.
func withSoftwareDevices(text string, f *configs.Fabric) string {
	var gpus, nics []string
	for _, m := range device.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[2], "0x03") {
			gpus = append(gpus, m[1])
		} else {
			nics = append(nics, m[1])
		}
	}
	slices.Sort(gpus)
	slices.Sort(nics)
	return device.ReplaceAllStringFunc(text, func(old string) string {
		m := device.FindStringSubmatch(old)
		if n := slices.Index(nics, m[1]); n >= 0 {
			return fmt.Sprintf(
				`<pci busid="dde0:%02x:00.0" class="%s"%s><nic><net name="goemu%d" speed="%d" latency="%d" port="1" guid="0x%x" gdr="1"/></nic></pci>`,
				n+1, m[2], m[3], n, f.Link.Bandwidth/1e6, f.NCCL.Latency.Time.Microseconds(), n+1)
		}
		var both strings.Builder
		for node := range 2 {
			fmt.Fprintf(&both,
				`<pci busid="0000:%02x:00.0" class="%s"%s><gpu><nvlink target="dde2:01:00.0" count="%d" tclass="0x068000"/></gpu></pci>`,
				0x10+node*len(gpus)+slices.Index(gpus, m[1]), m[2], m[3], f.NVLinksPerGPU)
		}
		return both.String()
	})
}
