// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// The scripts whose links go down in a step do what docs/failures.md says: for good, every rank fails after the
// transport's limit; for 2 s, the step takes that longer.
func TestOutagesOfTheDocs(t *testing.T) {
	t.Parallel()
	const outages = "../../../docs/examples/outages"
	readPrograms(t, filepath.Join("testdata", outages))
	python := pythons(t)[0]
	for _, tc := range []struct {
		script, profile string
		status          int
		says            string
	}{
		{"link_down.py", "ndr400", 1, "a job that needs a link that is down fails after 470ms of the virtual clock"},
		{"outage.py", "eth25-tcp", 0, "\nstep 5 2001."},
	} {
		o := job{python: python, flags: append([]string{"--profile", tc.profile}, virtual...),
			env: []string{"PATH=" + built.Path(t, "bin") + ":" + os.Getenv("PATH")}}.run(t, outages+"/"+tc.script)
		if o.Exit != tc.status || !strings.Contains(o.Stdout, tc.says) {
			t.Errorf("%s: status %d\n%s%s", tc.script, o.Exit, o.Stdout, o.Stderr)
		}
	}
}
