// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// dashboard is what a test looks at of a dashboard for Grafana.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID      int
		Type    string
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile("../../configs/grafana/ddlemu.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// written are the labels of each time series that ddlemu writes, by its name.
func written() map[string][]string {
	j := newRecordedJob(1)
	j.call("AllReduce", messages.Task{Func: "AllReduce", Algo: "Ring", Proto: "LL", Datatype: "float", Count: 1,
		Ranks: 4}, 1)
	up := status.Reading{TimeScale: 1, Hops: []status.HopReading{{Place: &status.Place{Kind: link.TxPort}},
		{Place: &status.Place{Kind: link.Link}}}, Jobs: []status.Job{{}}}
	all := map[string][]string{}
	for _, f := range append(families([]*status.Reading{&up}), recordedFamilies(&j.Trace, &j.Report, "")...) {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName())
			}
			labels = append(labels, "instance") // by Prometheus
			if f.GetType() != dto.MetricType_HISTOGRAM {
				all[f.GetName()] = labels
				continue
			}
			all[f.GetName()+"_sum"], all[f.GetName()+"_count"] = labels, labels
			all[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
	return all
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	selectors = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	groupings = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]`)
	words     = regexp.MustCompile(`[A-Za-z_]\w*`)
	variables = regexp.MustCompile(`\$\{?(\w+)`)
	legends   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// functions are the words of PromQL that the dashboard uses. Each metric there has a selector in braces, so any other
// word is a mistake.
var functions = []string{"rate", "sum", "avg", "histogram_quantile", "group_left"}

// checkExpr returns what is wrong with an expression and the names of the labels beside it.
func checkExpr(expr string, beside []string, series map[string][]string) (wrong []string) {
	expr = quoted.ReplaceAllString(expr, "")
	var known []string
	for _, s := range selectors.FindAllStringSubmatch(expr, -1) {
		labels, ok := series[s[1]]
		if !ok {
			wrong = append(wrong, "ddlemu writes no "+s[1])
		}
		for _, label := range words.FindAllString(s[2], -1) {
			if !slices.Contains(labels, label) {
				wrong = append(wrong, s[1]+" has no label "+label)
			}
		}
		known = append(known, labels...)
	}
	if len(known) == 0 {
		wrong = append(wrong, "no metric in it")
	}
	for _, g := range groupings.FindAllStringSubmatch(expr, -1) {
		beside = append(beside, words.FindAllString(g[1], -1)...)
	}
	for _, label := range beside {
		if !slices.Contains(known, label) {
			wrong = append(wrong, "no metric in it has the label "+label)
		}
	}
	rest := ranges.ReplaceAllString(groupings.ReplaceAllString(selectors.ReplaceAllString(expr, ""), ""), "")
	for _, word := range words.FindAllString(rest, -1) {
		if !slices.Contains(functions, word) {
			wrong = append(wrong, word+" is not known")
		}
	}
	if strings.Count(rest, "(") != strings.Count(rest, ")") {
		wrong = append(wrong, "parentheses do not match")
	}
	return wrong
}

// The dashboard uses only metrics that ddlemu writes, with labels that they have.
func TestDashboard(t *testing.T) {
	d, series := readDashboard(t), written()
	if d.Title == "" || d.UID == "" {
		t.Error("no title or no uid")
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	check := func(where, expr string, beside []string) {
		for _, text := range checkExpr(expr, beside, series) {
			t.Errorf("%s: %s: %s", where, text, expr)
		}
		for _, v := range variables.FindAllStringSubmatch(expr, -1) {
			if v[1] != "__rate_interval" && !slices.Contains(names, v[1]) {
				t.Errorf("%s: no variable %s", where, v[1])
			}
		}
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id is there twice, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("%s: %d expressions", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			var beside []string
			for _, l := range legends.FindAllStringSubmatch(target.LegendFormat, -1) {
				beside = append(beside, l[1])
			}
			check(p.Title, target.Expr, beside)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Fatalf("variable %s: %q", v.Name, v.Definition)
		}
		if !strings.Contains(m[1], "{") {
			m[1] += "{}"
		}
		check("variable "+v.Name, m[1], []string{m[2]})
	}
}

// The check above finds mistakes.
func TestCheckExpr(t *testing.T) {
	series := written()
	const good = `sum by (fabric, link) (rate(ddlemu_link_busy_seconds_total{fabric=~"$fabric"}[$__rate_interval]))`
	if wrong := checkExpr(good, nil, series); wrong != nil {
		t.Errorf("%s: %v", good, wrong)
	}
	for old, mistake := range map[string]string{
		"busy_seconds_total":  "busy_seconds",
		`{fabric=~"$fabric"}`: "",
		"{fabric":             "{fabrics",
		"(fabric, link)":      "(fabric, port)",
		"rate(":               "rates(",
		"]))":                 "])",
	} {
		expr := strings.Replace(good, old, mistake, 1)
		if checkExpr(expr, nil, series) == nil {
			t.Errorf("nothing is said of %s", expr)
		}
	}
	if checkExpr(good, []string{"direction"}, series) == nil {
		t.Error("nothing is said of a legend with a label that is not there")
	}
}
