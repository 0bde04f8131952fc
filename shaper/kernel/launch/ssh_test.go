// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSSH(t *testing.T) {
	for _, c := range []struct {
		line string
		want SSHCommand
	}{
		{"node1", SSHCommand{Host: "node1"}},
		{"node1 hostname", SSHCommand{Host: "node1", Command: []string{"hostname"}}},
		{"bob@node1 ls -l", SSHCommand{User: "bob", Host: "node1", Command: []string{"ls", "-l"}}},
		{"-l bob node1 ls", SSHCommand{User: "bob", Host: "node1", Command: []string{"ls"}}},
		{"-l bob eve@node1", SSHCommand{User: "bob", Host: "node1"}},
		{"-lbob node1", SSHCommand{User: "bob", Host: "node1"}},
		{"-oUser=bob node1", SSHCommand{User: "bob", Host: "node1"}},
		{"-n node1 cat", SSHCommand{Host: "node1", NoInput: true, Command: []string{"cat"}}},
		{"node1 -n cat", SSHCommand{Host: "node1", NoInput: true, Command: []string{"cat"}}},
		{"-oStdinNull=yes node1", SSHCommand{Host: "node1", NoInput: true}},
		{"-xnq node1 cat", SSHCommand{Host: "node1", NoInput: true, Command: []string{"cat"}}},
		{"-p 22 -i key -E log -o BatchMode=yes -vvv -tt -A -a node1", SSHCommand{Host: "node1"}},
		{"-p22 -4 -C node1 -- -x", SSHCommand{Host: "node1", Command: []string{"-x"}}},
		{"-- node1 -- echo", SSHCommand{Host: "node1", Command: []string{"echo"}}},
		{"node1 echo -- -x", SSHCommand{Host: "node1", Command: []string{"echo", "--", "-x"}}},
		{"10.77.0.2 true", SSHCommand{Host: "10.77.0.2", Command: []string{"true"}}},
		{"bob@[fd00::2] true", SSHCommand{User: "bob", Host: "fd00::2", Command: []string{"true"}}},
		{"ssh://bob@node1:22/ true", SSHCommand{User: "bob", Host: "node1", Command: []string{"true"}}},
		// Command lines of launchers.
		{`-x node1 PATH=/usr/bin:$PATH ; orted -mca ess "env"`,
			SSHCommand{Host: "node1", Command: []string{"PATH=/usr/bin:$PATH", ";", "orted", "-mca", "ess", `"env"`}}},
		{"-oConnectTimeout=10 -2 -a -x -lroot node1 date",
			SSHCommand{User: "root", Host: "node1", Command: []string{"date"}}},
		{"-o PasswordAuthentication=no -o StrictHostKeyChecking=no node1 hostname -I",
			SSHCommand{Host: "node1", Command: []string{"hostname", "-I"}}},
	} {
		got, err := ParseSSH(strings.Split(c.line, " "))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if len(got.Command) == 0 {
			got.Command = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
	}
}

func TestParseSSHRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "needs a node"}, {"-x", "needs a node"}, {"bob@", "needs a node"}, {"-p", "-p needs a value"},
		{"node1 -l", "-l needs a value"},
		{"-L 80:a:80 node1", "-L: "}, {"-f node1 sleep 1", "-f: "}, {"-N node1", "-N: "}, {"-s node1 sftp", "-s: "},
		{"-Z node1", "-Z: ssh has no such option"}, {"-o Nonsense node1", "NAME=VALUE"},
		{"-o SetEnv=A=1 node1", "leave it out"},
		{"-xL80:a:80 node1", "-L: "},
	} {
		if _, err := ParseSSH(strings.Fields(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.line, err, c.want)
		}
	}
}

func FuzzParseSSH(f *testing.F) {
	for _, s := range []string{"node1 true", "-x -l bob -oUser=x node1 -n cat", "-", "--", "-- --",
		"ssh://a@[::1]:22/ x", "-o", "-p22 @", "-vvvp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, " ")
		l, err := ParseSSH(args)
		if err != nil {
			return
		}
		if l.Host == "" {
			t.Fatalf("%q: no host", s)
		}
		// The command is the end of the command line, unchanged.
		if tail := args[len(args)-len(l.Command):]; !cmp.Equal(append([]string{}, tail...),
			append([]string{}, l.Command...)) {
			t.Fatalf("%q: the command is %q", s, l.Command)
		}
	})
}
