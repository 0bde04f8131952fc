// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each way in which a test may name a program. The functions around are those of the tests of this repository.
func TestInGo(t *testing.T) {
	const functions = `
func (w *world) try(args ...string) { exec.Command(args[0], args[1:]...) }
func (w *world) shell(line string) { w.try("sh", "-c", line) }
func output(program string) { exec.CommandContext(ctx, program, "x") }
func newWorld(t *testing.T, programs ...string) *world { for _, p := range programs { needs.Optional(t, p) }; return nil }
func ddlemu(args ...string) *exec.Cmd { return exec.Command(built.Path(t, "bin", "ddlemu"), args...) }
func launcher() []string { return []string{"g", "-x"} }
type rank struct { wrap []string }
`
	for body, want := range map[string]string{
		`exec.Command("a", "b")`:                                    "a",
		`exec.CommandContext(ctx, "a")`:                             "a",
		`path, _ := exec.LookPath("a"); exec.Command(path)`:         "a",
		`const p = "a"; exec.Command(p)`:                            "a",
		`needs.Program(t, "a")`:                                     "a",
		`needs.Optional(t, "/usr/include/a.h")`:                     "/usr/include/a.h",
		`for _, p := range []string{"a", "b"} { exec.LookPath(p) }`: "a b",
		`w.try("a", "b")`:                                           "a",
		`w.try("env", "A=1", "a")`:                                  "a env",
		`output("a"); output(filepath.Join(dir, "b"))`:              "a",
		`newWorld(t, "a", "b").shell("c | d")`:                      "a b c d",
		`ddlemu("exec", "node0", "--", "a", "b")`:                   "a",
		`ddlemu(append([]string{"run", "--"}, "a")...)`:             "a",
		`args := []string{"run"}; args = append(args, "--"); args = append(args, "a"); ddlemu(args...)`: "a",
		`command := launcher(); exec.Command(command[0], command[1:]...)`:                               "g",
		`exec.Command("sh", "-c", "a; echo " + b + " | c")`:                                             "a c",
		`exec.Command("sh", "-c", fmt.Sprintf("a %d; exec b", pid))`:                                    "a b",
		`exec.Command("unshare", "-m", "sh", "-c", "a")`:                                                "a unshare",
		`r := rank{wrap: []string{"a"}}; exec.Command(r.wrap[0])`:                                       "a",
		`run := func(p string) { exec.Command(p) }; run("a")`:                                           "a",
		`const p = "a"; ddlemu("exec", "node0", "--", p)`:                                               "a",
		`ddlemu("bench", "--json")`:                                                                     "",
		`exec.Command(os.Args[0])`:                                                                      "",
	} {
		path := filepath.Join(t.TempDir(), "x_test.go")
		if err := os.WriteFile(path, []byte("package x\n"+functions+"func Test(t *testing.T) {\n"+body+"\n}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		found, _, err := inGo([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range found {
			if s.program != "sh" && !slices.Contains(got, s.program) { // the function shell has sh
				got = append(got, s.program)
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s\nstarts %q, want %q", body, text, want)
		}
	}
}

// A program that is not in the code is reported.
func TestLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x_test.go")
	if err := os.WriteFile(path, []byte("package x\nfunc Test() { exec.Command(unknown) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, lost, err := inGo([]string{path}); err != nil || len(lost) != 1 ||
		!strings.HasSuffix(lost[0], "x_test.go:2") {
		t.Errorf("%q, %v", lost, err)
	}
}

func TestInFile(t *testing.T) {
	for _, tc := range []struct {
		path, text string
		want       []string
	}{
		{"cmd/x/testdata/script/a.txt",
			"# a\nddlemu exec node0 -- a b\n! exec b c\n[root] exec sh -c 'c; d'\nstatus 2 e\nstdout 'exec f'\n-- x.sh --\n#!/bin/sh\ng\n",
			[]string{"ddlemu", "a", "b", "sh", "c", "d", "e", "g"}},
		{"a.py",
			"subprocess.run(['a', 'b'])\nsubprocess.Popen([sys.executable, '--', 'c'])\nos.execv(\"/bin/sh\", [])\n",
			[]string{"a", "c", "/bin/sh"}},
		{"docs/a.md", "    b\n```sh\na\n```\n", []string{"a"}},
		{"a", "#!/usr/bin/env bash\na\n", []string{"a"}},
		{"a.txt", "a\n", nil},
	} {
		if got := inFile(tc.path, tc.text); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.path, got, tc.want)
		}
	}
}
