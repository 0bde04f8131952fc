// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// user runs commands on fabrics of its own.
type user struct{ *world.World }

// newUser skips the test without root. When the test ends, all fabrics are taken down and nothing may remain.
func newUser(t *testing.T) *user {
	t.Helper()
	return &user{world.NewKernel(t)}
}

// command returns a ddlemu command with these arguments. The program behind "--", if there is one, must be installed.
func (w *user) command(args ...string) *exec.Cmd {
	w.Helper()
	if i := slices.Index(args, "--"); i >= 0 && !strings.Contains(args[i+1], "/") {
		needs.Program(w, args[i+1])
	}
	return w.Command(context.Background(), args...)
}

// try runs ddlemu and returns its output and its exit status.
func (w *user) try(args ...string) (out string, status int) {
	w.Helper()
	o := world.Finish(w, w.command(args...))
	return o.Text(), o.Exit
}

// run runs ddlemu, which must succeed, and returns its output.
func (w *user) run(args ...string) string {
	w.Helper()
	out, status := w.try(args...)
	if status != 0 {
		w.Fatalf("ddlemu %s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// up brings up a fabric of the kernel datapath.
func (w *user) up(args ...string) string {
	w.Helper()
	return w.run(append([]string{"up", "--set", "datapath=kernel", "--no-measure"}, args...)...)
}

// subnet returns the subnet of a fabric.
func (w *user) subnet(fabric string) netip.Prefix {
	w.Helper()
	dir, err := state.OpenDir(w.Dir, os.Getuid(), false)
	if err != nil {
		w.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open(fabric)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	fab, err := fabricfile.Read(file)
	if err != nil {
		w.Fatal(err)
	}
	return netip.MustParsePrefix(fab.Config.Subnet)
}
