// SPDX-License-Identifier: Apache-2.0

package bench

// finisher compares measured rows with their expected times, and hands them on in their order.
// On a virtual clock it does so while the ranks measure the next row: that does not change their
// times. On the real clock it would take a core from them.
type finisher struct {
	cfg    *Config
	result *Result
	onRow  func(Row)
	rows   chan Row // nil on the real clock
	done   chan struct{}
}

func newFinisher(cfg *Config, result *Result, onRow func(Row)) *finisher {
	f := &finisher{cfg: cfg, result: result, onRow: onRow}
	if !cfg.Virtual {
		return f
	}
	f.rows, f.done = make(chan Row), make(chan struct{})
	go func() {
		defer close(f.done)
		for row := range f.rows {
			f.finish(row)
		}
	}()
	return f
}

// add finishes a row, now or soon.
func (f *finisher) add(row Row) {
	if f.rows == nil {
		f.finish(row)
		return
	}
	f.rows <- row
}

// wait returns when all rows are finished.
func (f *finisher) wait() {
	if f.rows != nil {
		close(f.rows)
		<-f.done
	}
}

func (f *finisher) finish(row Row) {
	f.expect(&row.OutOfPlace)
	if row.InPlace != nil {
		f.expect(row.InPlace)
	}
	f.result.Rows = append(f.result.Rows, row)
	if f.onRow != nil {
		f.onRow(row)
	}
}

func (f *finisher) expect(m *Measurement) {
	if f.cfg.Expected == nil {
		return
	}
	if expected, known := f.cfg.Expected(m.Case); known {
		m.compare(expected)
	}
}
