// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// The scripts of docs/failures.md whose links go down in a step do what the page says: for good, every rank fails after
// the transport's limit; for 2 s, the step takes that longer.
func TestOutagesOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	python := pythons(t)[0]
	for _, tc := range []struct {
		script, profile string
		status          int
		says            string
	}{
		{"train.py", "ndr400", 1, "a job that needs a link that is down fails after 470ms of the virtual clock"},
		{"outage.py", "eth25-tcp", 0, "\nstep 5 2001."},
	} {
		_, text, found := strings.Cut(string(page), "```python\n# "+tc.script+"\n")
		text, _, ends := strings.Cut(text, "```\n")
		if !found || !ends {
			t.Fatalf("the page has no %s", tc.script)
		}
		file := filepath.Join(t.TempDir(), tc.script)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		program, err := filepath.Rel(world.Absolute(t, "testdata"), file)
		if err != nil {
			t.Fatal(err)
		}
		o := job{python: python, flags: append([]string{"--profile", tc.profile}, virtual...),
			env: []string{"PATH=" + built.Path(t, "bin") + ":" + os.Getenv("PATH")}}.run(t, program)
		if o.Exit != tc.status || !strings.Contains(o.Stdout, tc.says) {
			t.Errorf("%s: status %d\n%s%s", tc.script, o.Exit, o.Stdout, o.Stderr)
		}
	}
}
