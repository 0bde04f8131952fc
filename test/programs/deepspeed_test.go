// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// DeepSpeed's launcher starts the ranks of two nodes with its hostfile, pdsh and `ddlemu ssh`; they use the backend for
// PyTorch.
func TestDeepSpeed(t *testing.T) {
	w := newUser(t, "pdsh")
	prefix := world.Absolute(t, "..", "..", "build", "deepspeed")
	needs.PyPI(t, filepath.Join(prefix, "version"))
	w.copy("deepspeed_ok.py")
	w.shell(`mkdir bin && ln -s "$(command -v ddlemu)" bin/ssh`)
	w.path = filepath.Join(prefix, "bin") + ":" + w.path
	const up, hostfile, launch = `eval "$(ddlemu up --profile eth10 --nodes 2 --set gpus_per_node=2 --set datapath=kernel | grep ^export)"`,
		`ddlemu hostfile --style deepspeed > hostfile`, `PATH=$PWD/bin:$PATH deepspeed -H hostfile deepspeed_ok.py`
	page, err := os.ReadFile(world.Absolute(t, "..", "..", "docs", "kernel.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{up, hostfile, launch} {
		if !strings.Contains(string(page), part) {
			t.Errorf("docs/kernel.md does not have the line %s", part)
		}
	}
	o := w.shell("set -e\n" + up + "\n" + hostfile + "\n" + launch + "\nsed -i s/slots=2/slots=1/ hostfile\n" + launch)
	got := regexp.MustCompile(`(?m)\[node.*is OK.*$`).FindAllString(o.Stdout, -1)
	slices.Sort(got)
	want := []string{
		"[node0-0] is OK (global rank: 0/2)", "[node0-0] is OK (global rank: 0/4)",
		"[node0-1] is OK (global rank: 1/4)",
		"[node1-0] is OK (global rank: 1/2)", "[node1-0] is OK (global rank: 2/4)",
		"[node1-1] is OK (global rank: 3/4)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s%s", got, want, o.Stdout, o.Stderr)
	}
}
