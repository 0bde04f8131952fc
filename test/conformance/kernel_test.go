// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// notOnKernel says why a case does not run on the kernel datapath, "" if it does.
func notOnKernel(c testCase) string {
	switch c.name {
	case "properties", "properties-of-the-link", "sizes-tcp", "interleave-lossy", "nothing-early":
		return "makes its own fabric, on the datapath shm"
	case "tuner", "tuner-nodes", "tuner-no-world", "tuner-nodes-no-world", "tuner-part-no-world", "tuner-ranks",
		"vtable", "failed-init":
		return "does not depend on the datapath"
	}
	return ""
}

// dependsOnStreams says whether the number of streams matters for a case.
func dependsOnStreams(c testCase) bool {
	switch c.name {
	case "connect", "sizes", "receive-larger", "send-larger", "order", "interleave", "close-in-flight":
		return c.mode == "alone"
	}
	return false
}

// The same calls over TCP between the namespaces of a fabric's nodes, with one stream
// and with several.
func TestConformanceOnKernel(t *testing.T) {
	lib := built.Path(t, "lib", "libgoemu.so")
	dir := kernelFabric(t)
	if *seed == 0 {
		*seed = 1
	}
	n := 0
	// in the first any receive may be polled; in the last NCCL says which
	for _, version := range []int{firstVersion, lastVersion} {
		for _, streams := range []string{"1", "3"} {
			t.Run(fmt.Sprintf("v%d, streams %s", version, streams), func(t *testing.T) {
				for _, c := range cases(t) {
					if notOnKernel(c) != "" || skipReason(c, version) != "" || streams != "1" && !*all &&
						(version == firstVersion || !dependsOnStreams(c)) {
						continue
					}
					n++
					t.Run(c.String(), func(t *testing.T) {
						o := driveOn(t, lib, version, c, *seed, "DDLEMU_DIR="+dir, "DDLEMU_FABRIC=kernel",
							fmt.Sprintf("TORCHELASTIC_RUN_ID=%d", n), "DDLEMU_STREAMS="+streams)
						if *verbose {
							fmt.Printf("%-4s v%-2d kernel, streams %s: %s %s\n", o.word, version, streams, c, o.why)
						}
						switch o.word {
						case "SKIP":
							t.Skip(o.why)
						case "FAIL":
							t.Errorf("v%d, seed %d: %s\n%s", version, *seed, o.why, o.stderr)
						}
					})
				}
			})
		}
	}
}

// Messages arrive over IPv6 too.
func TestConformanceOnKernelIPv6(t *testing.T) {
	lib := built.Path(t, "lib", "libgoemu.so")
	dir := kernelFabric(t)
	o := driveOn(t, lib, lastVersion, testCase{name: "sizes", mode: "alone"}, 1, "DDLEMU_DIR="+dir,
		"DDLEMU_FABRIC=kernel", "TORCHELASTIC_RUN_ID=6", "DDLEMU_IPV6=1")
	if o.word != "PASS" {
		t.Errorf("%s: %s\n%s", o.word, o.why, o.stderr)
	}
}

const kernelFile = `
name: kernel
datapath: kernel
nodes: 2
nics_per_node: 1
link: {bandwidth: unlimited, latency: 0s, mtu: 9000, header: 40, framing: 38}
transport: {kind: tcp}
`

// kernelFabric brings up a fabric of two nodes without limits, in a new folder.
func kernelFabric(t *testing.T) (dir string) {
	t.Helper()
	w := world.NewKernel(t)
	file := filepath.Join(t.TempDir(), "kernel.yaml")
	if err := os.WriteFile(file, []byte(kernelFile), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Run("up", "-f", file, "--no-measure")
	return w.Dir
}
