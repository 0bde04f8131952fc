// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// change is the change of one link.
type change struct {
	from, to string
	what     string
}

// fewChanges is the largest number of rows for changes that are all the same.
const fewChanges = 16

// printChanges prints the links that changed, in one line if there are many with the same change.
func printChanges(w io.Writer, changes []change) {
	if len(changes) == 0 {
		fmt.Fprintln(w, "nothing changed: this was in force already")
		return
	}
	same := true
	for _, c := range changes {
		same = same && c.what == changes[0].what
	}
	if same && len(changes) > fewChanges {
		fmt.Fprintf(w, "%d links: %s\n", len(changes), changes[0].what)
		return
	}
	t := cli.NewTable(w, "from", "to", "change")
	for _, c := range changes {
		t.AppendRow(table.Row{c.from, c.to, c.what})
	}
	t.Render()
}
