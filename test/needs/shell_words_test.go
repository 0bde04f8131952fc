// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"slices"
	"testing"
)

func TestInShell(t *testing.T) {
	for script, want := range map[string][]string{
		"ping -c 1 node0":                               {"ping"},
		"a && b || ! c; d & e | f":                      {"a", "b", "c", "d", "e", "f"},
		"A=1 B=$(x y) a":                                {"x", "a"},
		"echo \"$(a 'b c')\" `d`":                       {"a", "d"},
		"if a; then b; else c; fi":                      {"a", "b", "c"},
		"while :; do sleep 0.01; done":                  {"sleep"},
		"for x in a b; do c $x; done":                   {"c"},
		"case $x in\na|b) c ;;\n*) d; e ;;\nesac\nf":    {"c", "d", "e", "f"},
		"f() { a; }; f; b":                              {"a", "b"},
		"(a; b) 2>/dev/null >c; d <e":                   {"a", "b", "d"},
		"cat <<END\nno command\nEND\na":                 {"cat", "a"},
		"set -e; trap 'a' TERM; exec b":                 {"b"},
		"[ -e a ] && [[ b = c && d ]] && e":             {"e"},
		"x=(a b $(c)); d ${x:+e f} $((1 + 2))":          {"d"},
		"env A=1 nohup timeout 5 a":                     {"env", "nohup", "timeout", "a"},
		"command -v a; xargs -0 b":                      {"a", "xargs", "b"},
		"ddlemu exec node0 -- sh -c 'a; b' # c":         {"ddlemu", "sh", "a", "b"},
		"$x -y; \"$0\" z; a":                            {"a"},
		"a \\\n  b\nc":                                  {"a", "c"},
		"a <(b) 'c d' && e":                             {"b", "a", "e"},
		"mpiexec -n 2 sh -c 'echo $(hostname)'":         {"mpiexec", "sh", "hostname"},
		"echo 'a; b' \"c && d\"; kill $(cat x)":         {"cat"},
		"ls | while read -r f; do a \"$f\"; done":       {"ls", "a"},
		"test $(hostname) = node0 && sleep 60; exit 6;": {"hostname", "sleep"},
	} {
		got := inShell(script)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}
