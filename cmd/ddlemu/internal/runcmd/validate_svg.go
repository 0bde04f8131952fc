// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/report/chart"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// pictures is the file or folder of pictures of tables.
type pictures struct {
	Path  string
	Force bool
}

// addFlags adds the flags to fs.
func (p *pictures) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.Path, "svg", "",
		"`file` for a picture of published and calculated times, as SVG, or a folder for all tables")
	fs.BoolVar(&p.Force, "force", false, "replace the files of --svg")
}

// allPicture is the file of all tables in a folder.
const allPicture = "all.svg"

// check refuses files that cannot be written, before the work is done. It returns the file of all tables, and the files
// of each table by its name; "" and none if they are not asked for.
func (p *pictures) check(tables []string) (files map[string]string, err error) {
	files = map[string]string{}
	if p.Path == "" {
		return files, nil
	}
	info, err := os.Stat(p.Path)
	isFolder := err == nil && info.IsDir()
	if !isFolder {
		files[""] = p.Path
		return files, cli.CheckFile("--svg", p.Path, p.Force)
	}
	files[""] = filepath.Join(p.Path, allPicture)
	taken := map[string]string{files[""]: "all tables together"}
	for _, path := range tables {
		name := filepath.Base(path)
		file := filepath.Join(p.Path, strings.TrimSuffix(name, filepath.Ext(name))+".svg")
		if other, twice := taken[file]; twice {
			return nil, cli.BadInput("--svg %s: %s and %s would have the same picture %s: name a file", p.Path, other, name,
				filepath.Base(file))
		}
		taken[file], files[name] = name, file
	}
	for _, file := range files {
		if err := cli.CheckFile("--svg", file, p.Force); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// write writes the pictures: the picture of all reports, and the pictures of the reports that have a file.
func (p *pictures) write(files map[string]string, reports []*validate.Report) error {
	draw := func(file, title string, reports []*validate.Report) error {
		s := scatter(title, reports)
		if len(s.Groups) == 0 {
			return nil
		}
		return cli.WriteNamed("--svg", file, p.Force, s.WriteSVG)
	}
	title := "Published and calculated times of collectives"
	if len(reports) == 1 {
		title = reports[0].Name
	}
	if err := draw(files[""], title, reports); err != nil {
		return err
	}
	for _, r := range reports {
		if err := draw(files[r.Name], r.Name, []*validate.Report{r}); err != nil {
			return err
		}
	}
	return nil
}

// scatter draws the rows of the reports, with a colour for each kind of GPU. Rows that take no time are not drawn.
func scatter(title string, reports []*validate.Report) *chart.Scatter {
	s := &chart.Scatter{Title: title, X: "published, us", Y: "calculated, us", Guides: []chart.Guide{
		{Name: "equal", Factor: 1}, {Name: "25 % more or less", Factor: 1.25, Dashed: true}, {Factor: 0.75, Dashed: true}}}
	for _, r := range reports {
		name := cmp.Or(r.GPU, "GPU not known")
		i := slices.IndexFunc(s.Groups, func(g chart.Line) bool { return g.Name == name })
		if i < 0 {
			i = len(s.Groups)
			s.Groups = append(s.Groups, chart.Line{Name: name})
		}
		for _, l := range r.Lines {
			if got := cmp.Or(l.Emulated, l.Expected); got > 0 {
				s.Groups[i].Points = append(s.Groups[i].Points, chart.Point{X: l.Published, Y: got})
			}
		}
	}
	s.Groups = slices.DeleteFunc(s.Groups, func(g chart.Line) bool { return len(g.Points) == 0 })
	slices.SortFunc(s.Groups, func(a, b chart.Line) int { return strings.Compare(a.Name, b.Name) })
	return s
}
