// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Scatter is a picture of pairs of values of the same unit, both axes logarithmic and with the same range.
type Scatter struct {
	Title, X, Y string  // labels
	Groups      []Line  // points without lines, with a colour for each group; all values must be above 0
	Guides      []Guide // lines through all of the picture
}

// Guide is the line on which Y is Factor times X.
type Guide struct {
	Name   string // in the legend; "" for none
	Factor float64
	Dashed bool
}

// glyphs mark the groups; each colour has the first one before any has the second one.
var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.TriangleGlyph{}, draw.BoxGlyph{}}

// WriteSVG draws the picture. A picture without points is an error.
func (s *Scatter) WriteSVG(w io.Writer) error {
	low, high, ok := s.span()
	if !ok {
		return fmt.Errorf("draw %s: there are no points", s.Title)
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = s.Title, s.X, s.Y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for i := range s.Guides {
		if err := s.Guides[i].add(p, low, high); err != nil {
			return err
		}
	}
	for i := range s.Groups {
		if err := addMarks(p, i, &s.Groups[i]); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, low, high
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Centimeter/2, -vg.Centimeter/2
	takeFont(p)
	return write(p, w, 16*vg.Centimeter)
}

// span is the range of all values, as whole powers of ten; ok is false if there are none.
func (s *Scatter) span() (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, g := range s.Groups {
		for _, x := range g.Points {
			low, high = min(low, x.X, x.Y), max(high, x.X, x.Y)
		}
	}
	if low > high {
		return 0, 0, false
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if low == high { // all values are the same power of ten
		high++
	}
	return math.Pow(10, low), math.Pow(10, high), true
}

// add adds the part of the line that lies between low and high on both axes.
func (g *Guide) add(p *plot.Plot, low, high float64) error {
	from, to := max(low, low/g.Factor), min(high, high/g.Factor)
	line, err := plotter.NewLine(plotter.XYs{{X: from, Y: from * g.Factor}, {X: to, Y: to * g.Factor}})
	if err != nil {
		return fmt.Errorf("draw %s: %w", g.Name, err)
	}
	line.Color, line.Width = color.Gray{Y: 110}, vg.Points(1)
	if g.Dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
	}
	p.Add(line)
	if g.Name != "" {
		p.Legend.Add(g.Name, line)
	}
	return nil
}

// addMarks adds group number i.
func addMarks(p *plot.Plot, i int, group *Line) error {
	if len(group.Points) == 0 {
		return nil
	}
	var points plotter.XYs
	for _, x := range group.Points {
		points = append(points, plotter.XY(x))
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return fmt.Errorf("draw %s: %w", group.Name, err)
	}
	marks.Color, marks.Radius = colours[i%len(colours)], vg.Points(2.2)
	marks.Shape = glyphs[i/len(colours)%len(glyphs)]
	p.Add(marks)
	p.Legend.Add(group.Name, marks)
	return nil
}
