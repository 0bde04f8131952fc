// SPDX-License-Identifier: Apache-2.0

// Package perfetto writes a timeline as a Perfetto trace: a sequence of TracePacket messages
// (protos/perfetto/trace/perfetto_trace.proto of github.com/google/perfetto), whose field numbers are below.
package perfetto

import (
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/intercept/timeline"
)

// Clocks that the timestamps may be of (builtin_clock.proto).
const (
	Realtime = 1 // CLOCK_REALTIME
	Boottime = 6 // Perfetto's default: any clock of its own will do
)

// Fields of the messages.
const (
	tracePacket = 1 // of Trace

	packetClockSnapshot = 6 // of TracePacket
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetInterned      = 12
	packetFlags         = 13
	packetClock         = 58
	packetTrack         = 60

	snapshotClocks  = 1 // of ClockSnapshot
	snapshotPrimary = 2
	clockID         = 1 // of ClockSnapshot.Clock
	clockTimestamp  = 2

	trackUUID     = 1 // of TrackDescriptor
	trackName     = 2
	trackParent   = 5
	trackCounter  = 8
	trackOrdering = 11
	trackRank     = 12

	counterUnitName = 6 // of CounterDescriptor

	eventArgs       = 4 // of TrackEvent
	eventType       = 9
	eventName       = 10 // interned
	eventTrack      = 11
	eventDouble     = 44
	eventFlows      = 47
	eventLastFlow   = 48
	argName         = 1 // of DebugAnnotation, interned
	argInt          = 4
	argText         = 17 // interned
	internedEvents  = 2  // of InternedData
	internedArgs    = 3
	internedTexts   = 29
	internedID      = 1 // of EventName, DebugAnnotationName and InternedString
	internedText    = 2
	explicitOrder   = 3 // TrackDescriptor.ChildTracksOrdering
	sequenceCleared = 1 // flags
	sequenceNeeds   = 2
)

// Types of track events.
const (
	typeBegin   = 1
	typeEnd     = 2
	typeInstant = 3
	typeCounter = 4
)

// Writer is a timeline.Sink: a sequence of packets of a trace.
type Writer struct {
	w        io.Writer
	err      error
	sequence uint64
	clock    uint64
	out      []byte // packets that are not written yet
	// Texts that are known to the reader, by their kinds.
	events, args, texts map[string]uint64
	interned            []byte // InternedData of the packet in the making
	packet, event, part []byte // used again for each
	begun               bool
}

// NewWriter writes a sequence to w. The timestamps are of a clock. A trace may have several sequences, with
// different numbers from 1, one behind the other: of events at the same time, the reader takes those first
// that are first in the file.
func NewWriter(w io.Writer, clock, sequence int) *Writer {
	return &Writer{w: w, sequence: uint64(sequence), clock: uint64(clock), events: map[string]uint64{},
		args: map[string]uint64{}, texts: map[string]uint64{}}
}

// Close writes the buffered bytes, and returns the first error.
func (w *Writer) Close() error {
	w.flush(0)
	return w.err
}

// flush writes if there are more than so many bytes.
func (w *Writer) flush(most int) {
	if len(w.out) <= most {
		return
	}
	if w.err == nil {
		_, w.err = w.w.Write(w.out)
	}
	w.out = w.out[:0]
}

// varint appends a field.
func varint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// message appends a field with bytes.
func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// emit ends the packet in the making.
func (w *Writer) emit() {
	flags := uint64(sequenceNeeds)
	if !w.begun {
		flags |= sequenceCleared
		w.begun = true
	}
	w.packet = varint(w.packet, packetSequence, w.sequence)
	w.packet = varint(w.packet, packetFlags, flags)
	if len(w.interned) > 0 {
		w.packet = message(w.packet, packetInterned, w.interned)
		w.interned = w.interned[:0]
	}
	w.out = message(w.out, tracePacket, w.packet)
	w.packet = w.packet[:0]
	w.flush(1 << 20)
}

// intern is the number of a text, which the reader learns with this packet if it does not know it.
func (w *Writer) intern(known map[string]uint64, field protowire.Number, s string) uint64 {
	if n, ok := known[s]; ok {
		return n
	}
	n := uint64(len(known)) + 1
	known[s] = n
	entry := text(varint(nil, internedID, n), internedText, s)
	w.interned = message(w.interned, field, entry)
	return n
}

// Begun tells the reader, before the first track, that two clocks show these times, in ns, at one moment.
// Without it a trace has only its own clock.
func (w *Writer) Begun(clocks map[int]int64) {
	var snapshot []byte
	for id, at := range clocks {
		clock := varint(varint(nil, clockID, uint64(id)), clockTimestamp, uint64(at))
		snapshot = message(snapshot, snapshotClocks, clock)
	}
	snapshot = varint(snapshot, snapshotPrimary, w.clock)
	w.packet = message(w.packet, packetClockSnapshot, snapshot)
	w.emit()
}

// Track is of timeline.Sink.
func (w *Writer) Track(t timeline.Track) {
	d := varint(w.part[:0], trackUUID, uint64(t.ID))
	d = text(d, trackName, t.Name)
	if t.Parent != 0 {
		d = varint(d, trackParent, uint64(t.Parent))
	}
	if t.Unit != "" {
		d = message(d, trackCounter, text(nil, counterUnitName, t.Unit))
	} else {
		d = varint(d, trackOrdering, explicitOrder)
	}
	d = varint(d, trackRank, uint64(int64(t.Order)))
	w.part = d
	w.packet = message(w.packet, packetTrack, d)
	w.emit()
}

// add ends a track event at a time.
func (w *Writer) add(at int64) {
	w.packet = varint(w.packet, packetTimestamp, uint64(at))
	if w.clock != Boottime {
		w.packet = varint(w.packet, packetClock, w.clock)
	}
	w.packet = message(w.packet, packetTrackEvent, w.event)
	w.emit()
}

func (w *Writer) start(kind uint64, track int) {
	w.event = varint(varint(w.event[:0], eventType, kind), eventTrack, uint64(track))
}

// named is the begin of a slice, or an instant.
func (w *Writer) named(kind uint64, e timeline.Event) {
	w.start(kind, e.Track)
	w.event = varint(w.event, eventName, w.intern(w.events, internedEvents, e.Name))
	if e.Arrow != 0 {
		field := protowire.Number(eventFlows)
		if e.Last {
			field = eventLastFlow
		}
		w.event = protowire.AppendFixed64(protowire.AppendTag(w.event, field, protowire.Fixed64Type), e.Arrow)
	}
	for _, a := range e.Args {
		arg := varint(w.part[:0], argName, w.intern(w.args, internedArgs, a.Name))
		if a.Text != "" {
			arg = varint(arg, argText, w.intern(w.texts, internedTexts, a.Text))
		} else {
			arg = varint(arg, argInt, uint64(a.Value))
		}
		w.part = arg
		w.event = message(w.event, eventArgs, arg)
	}
	w.add(e.At)
}

// Begin is of timeline.Sink.
func (w *Writer) Begin(e timeline.Event) { w.named(typeBegin, e) }

// Instant is of timeline.Sink.
func (w *Writer) Instant(e timeline.Event) { w.named(typeInstant, e) }

// End is of timeline.Sink.
func (w *Writer) End(track int, at int64) {
	w.start(typeEnd, track)
	w.add(at)
}

// Count is of timeline.Sink.
func (w *Writer) Count(track int, at int64, value float64) {
	w.start(typeCounter, track)
	w.event = protowire.AppendFixed64(protowire.AppendTag(w.event, eventDouble, protowire.Fixed64Type),
		math.Float64bits(value))
	w.add(at)
}
