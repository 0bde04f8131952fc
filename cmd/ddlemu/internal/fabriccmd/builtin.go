// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// showBuiltIn prints one built-in profile or kind of GPU: as a file, or with --json as document.
func showBuiltIn(g *cli.Global, one interface{ Encode() ([]byte, error) }, document any) error {
	if g.JSON {
		return g.PrintJSON(document)
	}
	file, err := one.Encode()
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s", file)
	return nil
}

// listBuiltIn prints all of them: as a table with these columns, or with --json as documents.
func listBuiltIn[T, D any](g *cli.Global, all []*T, document func(*T) D, columns []string,
	row func(*T) table.Row) error {
	if g.JSON {
		list := []D{}
		for _, one := range all {
			list = append(list, document(one))
		}
		return g.PrintJSON(list)
	}
	t := cli.NewTable(g.Stdout, columns...)
	for _, one := range all {
		t.AppendRow(row(one))
	}
	t.Render()
	return nil
}
