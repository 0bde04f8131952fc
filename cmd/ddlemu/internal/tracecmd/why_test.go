// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
)

// A note names what else a rank may have waited for, if nodes take time.
func TestNodeNotes(t *testing.T) {
	c, err := configs.Load(configs.Source{Profile: "hgx-h100-ndr400", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if notes := nodeNotes(c); len(notes) != 1 || !strings.Contains(notes[0], "expect --why") {
		t.Errorf("%q", notes)
	}
	if c.NodeTime = false; len(nodeNotes(c)) > 0 {
		t.Error("nodes that take no time have a note")
	}
}
