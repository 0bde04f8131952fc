// SPDX-License-Identifier: Apache-2.0

package state

import (
	"os"
	"path/filepath"
	"testing"
)

// Root writes it into a user's folder, and does not follow a link there.
func TestWriteHostsFollowsNoLink(t *testing.T) {
	d := newDir(t)
	target := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, d.HostsPath("t")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteHosts("t", "10.77.0.1 node0\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "precious" {
		t.Errorf("the link's target has %q, %v", got, err)
	}
	if got, err := os.ReadFile(d.HostsPath("t")); err != nil || string(got) != "10.77.0.1 node0\n" {
		t.Errorf("hosts has %q, %v", got, err)
	}
}
