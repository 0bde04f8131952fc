// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"io"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// DOT writes f in the language of Graphviz.
func DOT(w io.Writer, f *fabric.Fabric) {
	g := graphOf(f)
	fmt.Fprintf(w, "graph %q {\n", f.Config.Name)
	for i, sw := range g.switches {
		fmt.Fprintf(w, "  s%d [label=%q, shape=box, style=filled];\n", i, sw)
	}
	for n, name := range g.nics {
		fmt.Fprintf(w, "  n%d [label=%q];\n  n%d -- s%d [label=%q];\n", n, name, n, g.home[n], g.portLabel(f, n))
	}
	for _, e := range g.edges {
		more := ""
		if e.oneWay {
			more = ", dir=forward"
		}
		if e.down {
			more += ", style=dashed"
		}
		fmt.Fprintf(w, "  s%d -- s%d [label=%q%s];\n", e.from, e.to, e.label, more)
	}
	fmt.Fprintln(w, "}")
}
