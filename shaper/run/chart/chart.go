// SPDX-License-Identifier: Apache-2.0

// Package chart draws lines over a logarithmic scale, pairs of values, and the parts of a whole, as SVG.
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
	"gonum.org/v1/plot/vg/vgsvg"
)

// colours are those that people with colour blindness tell apart (Okabe and Ito), in the order of the lines.
var colours = []color.Color{
	color.RGBA{B: 178, G: 114, A: 255}, color.RGBA{R: 230, G: 159, A: 255}, color.RGBA{G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255}, color.RGBA{R: 86, G: 180, B: 233, A: 255},
	color.RGBA{R: 213, G: 94, A: 255},
	color.RGBA{R: 240, G: 228, B: 66, A: 255}, color.RGBA{A: 255},
}

// Chart is a picture.
type Chart struct {
	Title, X, Y string // labels
	LogY        bool   // then all values must be above 0
	Legend      Corner
	Ticks       []Tick // of X
	Lines       []Line
}

// Corner is where the legend is.
type Corner int

// The corners.
const (
	TopRight Corner = iota
	TopLeft
	BottomRight
)

// Tick is a marked value of X.
type Tick struct {
	At   float64 // above 0
	Text string
}

// Line is a line with a mark at each of its points.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

// WriteSVG draws the chart.
func (c *Chart) WriteSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(c.ticks())
	for i, line := range c.Lines {
		if err := add(p, i, &line); err != nil {
			return err
		}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	p.Legend.Top, p.Legend.Left = c.Legend != BottomRight, c.Legend == TopLeft
	if p.Legend.XOffs = -vg.Centimeter; p.Legend.Left {
		p.Legend.XOffs = vg.Centimeter / 2
	}
	p.Legend.Padding = vg.Points(4)
	p.Add(plotter.NewGrid())
	takeFont(p)
	// The labels lie side by side on a scale of powers.
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/3, draw.XRight, draw.YCenter
	return write(p, w, 10*vg.Centimeter)
}

// write writes a picture of a height.
func write(p *plot.Plot, w io.Writer, height vg.Length) error {
	canvas := vgsvg.New(16*vg.Centimeter, height)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), -vg.Points(18), vg.Points(6), -vg.Points(6)))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// add adds line number i.
func add(p *plot.Plot, i int, line *Line) error {
	if len(line.Points) == 0 {
		return nil
	}
	var points plotter.XYs
	for _, x := range line.Points {
		points = append(points, plotter.XY(x))
	}
	drawn, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("draw %s: %w", line.Name, err)
	}
	colour := colours[i%len(colours)]
	drawn.Color, drawn.Width = colour, vg.Points(1.5)
	if i >= len(colours) {
		drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
	}
	marks.Color, marks.Shape, marks.Radius = colour, draw.CircleGlyph{}, vg.Points(2.5)
	p.Add(drawn, marks)
	p.Legend.Add(line.Name, drawn, marks)
	return nil
}

// takeFont takes one font for all texts.
func takeFont(p *plot.Plot) {
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
		&p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
}

func (c *Chart) ticks() (ticks []plot.Tick) {
	for _, t := range c.Ticks {
		ticks = append(ticks, plot.Tick{Value: t.At, Label: t.Text})
	}
	return ticks
}
