// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The last line of `make test` says what was not judged. With CI set, that is a failure unless it is judged when the test
// is repeated.
func TestNotJudgedScript(t *testing.T) {
	const (
		a    = "./test/x\tTestA/sub\trate\trate: 1, want 2: not judged\n"
		b    = "./test/x\tTestB\tlatency\tlatency: 1 ms: not judged\n"
		noCI = ""
	)
	for _, tc := range []struct {
		name, ci, list string
		repeated       []string // what each run of a test adds to the list
		fails          bool
		last, ran      string
	}{
		{"nothing", "true", "", nil, false, "", ""},
		{"without CI", noCI, a + b, nil, false, "to judge 2 checks of: TestA/sub TestB", ""},
		{"judged at once", "true", a, []string{""}, false, "was judged when it was repeated", "TestA"},
		{"judged at last", "true", a, []string{a, ""}, false, "was judged when it was repeated", "TestA TestA"},
		{"one of two", "true", a + b, []string{"", b, b}, true, "to judge 1 checks of: TestB", "TestA TestB TestB"},
		{"never", "true", a, []string{a, a}, true, "to judge 1 checks of: TestA/sub", "TestA TestA"},
		{"another check than before", "true", a, []string{b}, false, "was judged when it was repeated", "TestA"},
		{"fails", "true", a, []string{"fail"}, true, "", "TestA"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			list, program := filepath.Join(dir, "list.txt"), filepath.Join(dir, "go")
			write := func(path, text string) {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(list, tc.list)
			write(filepath.Join(dir, "ran"), "")
			for i, text := range tc.repeated {
				write(filepath.Join(dir, "adds"+strings.Repeat("+", i)), text)
			}
			// A go command that notes which test it runs, and adds to the list what is next.
			write(program, `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" | sed 's/.*\^\(.*\)\$.*/\1/' >>ran
next=$(ls adds* | head -n 1)
[ "$(cat "$next")" != fail ] || exit 1
cat "$next" >>list.txt
rm "$next"
`)
			cmd := exec.Command("../../.ci/notjudged", list)
			cmd.Env = append(os.Environ(), "GO="+program, "CI="+tc.ci, "LC_ALL=C")
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			ran, readErr := os.ReadFile(filepath.Join(dir, "ran"))
			if (err != nil) != tc.fails || readErr != nil || strings.Join(strings.Fields(string(ran)), " ") != tc.ran ||
				!strings.Contains(lines[len(lines)-1], tc.last) {
				t.Errorf("%v; ran %q, want %q; said\n%s", err, ran, tc.ran, out)
			}
		})
	}
}
