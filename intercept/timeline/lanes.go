// SPDX-License-Identifier: Apache-2.0

package timeline

// lanes are tracks of one name: slices that overlap are on different ones.
type lanes struct {
	drawing *drawing
	parent  int
	name    string
	order   int
	tracks  []int
	ends    []int64 // of the last slice of each
}

func newLanes(d *drawing, parent int, name string, order int) *lanes {
	return &lanes{drawing: d, parent: parent, name: name, order: order}
}

// take is a track on which a slice from begin to end overlaps no other. Begins do not decrease from call
// to call.
func (l *lanes) take(begin, end int64) int {
	for i := range l.tracks {
		if l.ends[i] <= begin {
			l.ends[i] = end
			return l.tracks[i]
		}
	}
	l.tracks = append(l.tracks, l.drawing.track(l.parent, l.name, l.order))
	l.ends = append(l.ends, end)
	return l.tracks[len(l.tracks)-1]
}
