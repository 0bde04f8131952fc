// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// change is what became of one link.
type change struct {
	from, to string
	what     string
}

// fewChanges is how many rows the table of changes has at most, unless they differ.
const fewChanges = 16

// difference lists the fields in which two links differ, old and new.
func difference(old, now configs.Link) string {
	var parts []string
	add := func(name string, a, b any) {
		if a, b := fmt.Sprint(a), fmt.Sprint(b); a != b {
			parts = append(parts, name+" "+a+" -> "+b)
		}
	}
	add("bandwidth", old.Bandwidth, now.Bandwidth)
	add("latency", old.Latency, now.Latency)
	add("jitter", old.Jitter, now.Jitter)
	add("loss", old.Loss, now.Loss)
	add("queue", old.Queue, now.Queue)
	add("ecn", threshold(old.ECN), threshold(now.ECN))
	add("mtu", old.MTU, now.MTU)
	add("header", old.Header, now.Header)
	add("framing", old.Framing, now.Framing)
	add("state", upOrDown(old.Up), upOrDown(now.Up))
	return strings.Join(parts, ", ")
}

// threshold is an ECN threshold as a user writes it.
func threshold(n units.Size) string {
	if n == 0 {
		return "none"
	}
	return n.String()
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "DOWN"
}

// printChanges prints the links that changed; many that changed alike in one row.
func printChanges(w io.Writer, changes []change) {
	if len(changes) == 0 {
		fmt.Fprintln(w, "nothing changed: this was in force already")
		return
	}
	alike := true
	for _, c := range changes {
		alike = alike && c.what == changes[0].what
	}
	if alike && len(changes) > fewChanges {
		fmt.Fprintf(w, "%d links: %s\n", len(changes), changes[0].what)
		return
	}
	t := newTable(w, "from", "to", "change")
	for _, c := range changes {
		t.AppendRow(table.Row{c.from, c.to, c.what})
	}
	t.Render()
}
