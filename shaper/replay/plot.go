// SPDX-License-Identifier: Apache-2.0

package replay

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

// Colours that people with colour blindness tell apart (Okabe and Ito).
var (
	stepColour    = color.RGBA{B: 178, G: 114, A: 255}
	computeColour = color.RGBA{R: 230, G: 159, A: 255}
)

// WriteSVG draws the time of a step, and of its computation, over the parameter.
func (s *Sweep) WriteSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: time of a step", s.Points[0].Result.Facts.Workload.Workload.Head.Name)
	p.X.Label.Text = map[string]string{Bandwidth: "bandwidth", Latency: "latency"}[s.Param]
	p.Y.Label.Text = "ms"
	p.Y.Min = 0
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(s.ticks())
	for _, line := range []struct {
		name   string
		colour color.Color
		of     func(Step) float64
	}{
		{"step", stepColour, func(m Step) float64 { return m.Time.Seconds() * 1000 }},
		{"computation", computeColour, func(m Step) float64 { return m.Compute.Seconds() * 1000 }},
	} {
		var points plotter.XYs
		for i := range s.Points {
			points = append(points, plotter.XY{X: s.Points[i].Value, Y: line.of(Mean(s.Points[i].Result.Steps))})
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("draw the sweep: %w", err)
		}
		drawn.Color, drawn.Width = line.colour, vg.Points(1.5)
		marks.Color, marks.Shape, marks.Radius = line.colour, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(drawn, marks)
		p.Legend.Add(line.name, drawn, marks)
	}
	p.Legend.Top, p.Legend.XOffs, p.Legend.Padding = true, -vg.Centimeter, vg.Points(4)
	p.Add(plotter.NewGrid())
	layOut(p)
	canvas := vgsvg.New(16*vg.Centimeter, 10*vg.Centimeter)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(6), -vg.Points(18), vg.Points(6), -vg.Points(6)))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// layOut makes room for the labels, which lie side by side on a scale of powers.
func layOut(p *plot.Plot) {
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/3, draw.XRight, draw.YCenter
}

func (s *Sweep) ticks() (ticks []plot.Tick) {
	for i := range s.Points {
		ticks = append(ticks, plot.Tick{Value: s.Points[i].Value, Label: s.Points[i].Text})
	}
	return ticks
}
