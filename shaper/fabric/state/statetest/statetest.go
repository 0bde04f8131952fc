// SPDX-License-Identifier: Apache-2.0

// Package statetest gives tests a fabric that is up, in a temporary folder.
package statetest

import (
	"os"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// FabricText is a fabric file of three nodes that differs from the defaults in most values.
const FabricText = `
name: wan-test
nodes: 3
gpus_per_node: 2
nics_per_node: 2
link: {bandwidth: 10Gbps, latency: 1ms, jitter: "table:10us", loss: 0.1%, mtu: 1500, header: 40, framing: 38}
links:
  - {match: "node0:node1", bandwidth: 5Gbps, loss: "gilbert:1e-3,0.1"}
  - {match: "node2", up: false}
transport: {kind: tcp, rto: 200ms, send_buffer: 4MiB, window: 6MiB, timeout: 30s}
endpoint: {overhead: 300ns, gap: 100ns}
jitter_table: [0, 0.5, 1, 4]
seed: 42
time_scale: 4
`

// New brings up fab under the given name until the end of the test.
func New(t testing.TB, fab *fabric.Fabric, name string) *state.File {
	t.Helper()
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		t.Fatal(err)
	}
	return Of(t, spec)
}

// Of brings up the fabric that spec describes until the end of the test.
func Of(t testing.TB, spec state.Spec) *state.File {
	t.Helper()
	path, err := os.MkdirTemp("", "ddlemu-test-") // t.TempDir does not have mode 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	dir, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	file, err := dir.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
