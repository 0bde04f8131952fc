// SPDX-License-Identifier: Apache-2.0

// Package page writes HTML pages that are one file. Their code is under src, in
// TypeScript; `make page` bundles it into dist, which is committed.
package page

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
)

//go:embed dist
var dist embed.FS

// The policy lets the page load nothing but what .Connect allows: its code is in it.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src {{.Connect}}">
<title>ddlemu</title>
<link rel="icon" href="data:,">
<style>{{.CSS}}</style>
</head>
<body>
<script id="data" type="application/json">{{.Data}}</script>
<script>{{.JS}}</script>
</body>
</html>
`))

// Report writes the page that shows a document of package report.
func Report(w io.Writer, data any) error { return write(w, "report", "'none'", data) }

// Live writes the page that asks its server for documents of package serve.
func Live(w io.Writer, data any) error { return write(w, "live", "'self'", data) }

// write writes the page whose code has this name. connect says where it may get more data from.
func write(w io.Writer, name, connect string, data any) error {
	text, err := json.Marshal(data) // with <, > and & as \u003c and so on: no name ends the element
	if err != nil {
		return fmt.Errorf("write the document of the page: %w", err)
	}
	css, err := dist.ReadFile("dist/" + name + ".css")
	if err != nil {
		return err
	}
	js, err := dist.ReadFile("dist/" + name + ".js")
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{"Connect": connect, "CSS": template.CSS(css), "JS": template.JS(js),
		"Data": template.JS(text)})
}
