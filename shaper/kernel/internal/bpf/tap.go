// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// Tap reads the packets that the programs record. It is a tap.Source. Its methods are independent of the methods of
// Programs; the programs must not be closed before the reader.
type Tap struct {
	ring, missed *ebpf.Map
	snap         *ebpf.Variable
}

// Tap returns the programs' tap.
func (p *Programs) Tap() *Tap { return p.tap }

// Kind is the kind of a tap in eBPF programs.
func (*Tap) Kind() tap.Kind { return tap.Programs }

// pollEvery is how often a reader looks for records. The programs wake nobody for a record.
const pollEvery = 10 * time.Millisecond

// Open begins to record packets.
func (t *Tap) Open(snap int) (tap.Reader, error) {
	missed := make([]uint64, t.missed.MaxEntries())
	keys := make([]uint32, len(missed))
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := t.missed.BatchUpdate(keys, missed, nil); err != nil {
		return nil, fmt.Errorf("clear the counters of the tap: %w", err)
	}
	r, err := ringbuf.NewReader(t.ring)
	if err != nil {
		return nil, fmt.Errorf("read the ring buffer: %w", err)
	}
	o := &tapReader{tap: t, ring: r}
	// Records of an earlier reader are of no interest.
	for o.ring.SetDeadline(time.Now()); ; {
		if err := o.ring.ReadInto(&o.record); err != nil {
			break
		}
	}
	o.ring.SetDeadline(time.Now().Add(pollEvery))
	if err := o.SetSnap(snap); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return o, nil
}

// tapReader is a tap that is open.
type tapReader struct {
	tap    *Tap
	ring   *ringbuf.Reader
	record ringbuf.Record
}

// Read reads a record.
func (r *tapReader) Read(to *tap.Record) error {
	err := r.ring.ReadInto(&r.record)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.ring.SetDeadline(time.Now().Add(pollEvery))
		return tap.ErrNone
	}
	if err != nil {
		return fmt.Errorf("read the ring buffer: %w", err)
	}
	*to, _, err = tap.Parse(r.record.RawSample)
	return err
}

// Missed returns how many records did not fit into the ring buffer.
func (r *tapReader) Missed() (map[uint32]uint64, error) {
	var cursor ebpf.MapBatchCursor
	n := r.tap.missed.MaxEntries()
	keys, values := make([]uint32, n), make([]uint64, n)
	if _, err := r.tap.missed.BatchLookup(&cursor, keys, values, nil); err != nil &&
		!errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("read the counters of the tap: %w", err)
	}
	all := map[uint32]uint64{}
	for i, v := range values {
		if v > 0 {
			all[keys[i]] = v
		}
	}
	return all, nil
}

// SetSnap changes how many bytes of each packet are recorded.
func (r *tapReader) SetSnap(snap int) error {
	if err := r.tap.snap.Set(uint32(snap)); err != nil {
		return fmt.Errorf("set %s of the BPF programs: %w", shapeVarTapSnap, err)
	}
	return nil
}

// Close ends the recording.
func (r *tapReader) Close() error { return errors.Join(r.SetSnap(0), r.ring.Close()) }
