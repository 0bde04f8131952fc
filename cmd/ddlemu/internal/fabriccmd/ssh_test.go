// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

func TestOwnFlags(t *testing.T) {
	for _, c := range []struct{ args, rest, fabric, dir string }{
		{"node1 true", "node1 true", "", ""},
		{"--fabric f --dir=/d node1 --fabric x", "node1 --fabric x", "f", "/d"},
		{"-x --fabric f", "-x --fabric f", "", ""},
		{"-- --dir d", "-- --dir d", "", ""},
	} {
		g := &cli.Global{}
		rest, help, err := ownFlags(g, strings.Fields(c.args))
		if strings.Join(rest, " ") != c.rest || help || err != nil || g.Fabric != c.fabric || g.Dir != c.dir {
			t.Errorf("%s: %q, %v, %v, fabric %q, dir %q", c.args, rest, help, err, g.Fabric, g.Dir)
		}
	}
	for _, args := range []string{"--fabric", "--json node1"} {
		if _, _, err := ownFlags(&cli.Global{}, strings.Fields(args)); cli.ExitStatus(
			err) != cli.ExitInput {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, help, _ := ownFlags(&cli.Global{}, []string{"--help"}); !help {
		t.Error("no help")
	}
}
