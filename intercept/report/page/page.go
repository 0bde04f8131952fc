// SPDX-License-Identifier: Apache-2.0

// Package page writes HTML pages that are one file and need no network. Their code is under src, in
// TypeScript; `make page` bundles it into dist, which is committed.
package page

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
)

var (
	//go:embed dist/report.js
	reportJS string
	//go:embed dist/report.css
	reportCSS string
)

// The policy lets the page load nothing: what it shows is in it.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
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
func Report(w io.Writer, data any) error {
	text, err := json.Marshal(data) // with <, > and & as \u003c and so on: no name ends the element
	if err != nil {
		return fmt.Errorf("write the document of the page: %w", err)
	}
	return page.Execute(w, map[string]any{"CSS": template.CSS(reportCSS), "JS": template.JS(reportJS), "Data": template.JS(text)})
}
