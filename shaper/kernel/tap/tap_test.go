// SPDX-License-Identifier: Apache-2.0

package tap

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

// fakeSource has the records that a test gives it.
type fakeSource struct {
	mu      sync.Mutex
	records []Record
	missed  map[uint32]uint64
	snap    int // 0 while it is closed
	err     error
}

func (*fakeSource) Kind() Kind { return Programs }
func (s *fakeSource) Open(snap int) (Reader, error) {
	return s, s.SetSnap(snap)
}
func (s *fakeSource) SetSnap(snap int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snap = snap
	return nil
}
func (s *fakeSource) Close() error { return s.SetSnap(0) }
func (s *fakeSource) Missed() (map[uint32]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.missed), nil
}
func (s *fakeSource) Read(r *Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if len(s.records) == 0 {
		time.Sleep(time.Millisecond)
		return ErrNone
	}
	*r, s.records = s.records[0], s.records[1:]
	return nil
}
func (s *fakeSource) give(all ...Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, all...)
}

// unexpected is a report that fails the test.
func unexpected(t *testing.T) func(error) {
	return func(err error) { t.Error(err) }
}

// connect connects a client to a hub, which asks for snap bytes.
func connect(t *testing.T, h *Hub, snap int) *Stream {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	serve, err := h.Serve(server, marshalRequest(snap))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		serve()
		server.Close()
	}()
	s := &Stream{conn: c, message: make([]byte, maxMessage+headerSize+MaxSnap)}
	n, err := c.Read(s.message)
	if err != nil {
		t.Fatal(err)
	}
	if s.kind, err = parseGreeting(s.message[:n]); err != nil {
		t.Fatal(err)
	}
	return s
}

// all reads a stream to its end.
func all(t *testing.T, s *Stream) (records []Record) {
	t.Helper()
	for {
		r, err := s.Read()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Data = bytes.Clone(r.Data)
		records = append(records, r)
	}
}

// Two clients get the same packets, each with as many bytes as it wants; the numbers of missing records are those since
// the record before; the source is closed behind the last client.
func TestHub(t *testing.T) {
	source := &fakeSource{missed: map[uint32]uint64{4: 7, 5: 2}}
	h := NewHub(source, unexpected(t))
	defer h.Close()
	long, short := connect(t, h, 100), connect(t, h, 3)
	data := bytes.Repeat([]byte{1}, 80)
	source.give(Record{Enqueued: 1, Hop: 4, Length: 80, Packets: 1, Missed: 8, Data: data},
		Record{Enqueued: 2, Hop: 4, Length: 80, Packets: 1, Missed: 10, Data: data, Fate: Lost})
	source.mu.Lock()
	source.missed = map[uint32]uint64{4: 10, 5: 3}
	source.mu.Unlock()
	for _, s := range []*Stream{long, short} {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	got := all(t, long)
	want := []Record{
		{Enqueued: 1, Hop: 4, Length: 80, Packets: 1, Missed: 8, Data: data}, {Enqueued: 2, Hop: 4, Length: 80,
			Packets: 1, Missed: 2, Data: data, Fate: Lost},
		{Hop: 5, Missed: 3, Fate: Notice, Data: []byte{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the first client got\n%+v\nwant\n%+v", got, want)
	}
	// The second client connected when some were missing already.
	want[0].Missed, want[0].Data, want[1].Data, want[2].Missed = 1, data[:3], data[:3], 1
	if got := all(t, short); !reflect.DeepEqual(got, want) {
		t.Errorf("the second client got\n%+v\nwant\n%+v", got, want)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		source.mu.Lock()
		snap := source.snap
		source.mu.Unlock()
		if snap == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the source is still open")
		}
	}
}

// A client that does not read loses records, not the others; it is told how many. The hub can be closed meanwhile.
func TestSlowClient(t *testing.T) {
	source := &fakeSource{}
	h := NewHub(source, unexpected(t))
	defer h.Close()
	slow := connect(t, h, MaxSnap)
	const sent = 40_000
	data := make([]byte, MaxSnap)
	for range sent {
		source.give(Record{Hop: 4, Length: 1000, Packets: 1, Data: data})
	}
	for {
		time.Sleep(time.Millisecond)
		source.mu.Lock()
		n := len(source.records)
		source.mu.Unlock()
		if n == 0 {
			break
		}
	}
	if err := slow.Stop(); err != nil {
		t.Fatal(err)
	}
	got, missed := 0, uint64(0)
	for _, r := range all(t, slow) {
		if missed += r.Missed; r.Fate != Notice {
			got++
		}
	}
	if missed == 0 || uint64(got)+missed != sent {
		t.Errorf("%d records and %d missing of %d", got, missed, sent)
	}
}

// An error of the source is reported once, and ends the streams.
func TestSourceFails(t *testing.T) {
	source := &fakeSource{err: errors.New("broken")}
	reports := make(chan error, 100)
	h := NewHub(source, func(err error) { reports <- err })
	s := connect(t, h, 1)
	if r := all(t, s); len(r) != 0 {
		t.Errorf("%+v", r)
	}
	h.Close()
	if err := <-reports; !errors.Is(err, source.err) || len(reports) != 0 {
		t.Errorf("reported %v, and %d more", err, len(reports))
	}
}

// Closing the hub ends the streams.
func TestClose(t *testing.T) {
	h := NewHub(&fakeSource{}, unexpected(t))
	s := connect(t, h, 1)
	h.Close()
	if r := all(t, s); len(r) != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := h.Serve(nil, marshalRequest(1)); err == nil {
		t.Error("a closed hub accepts a client")
	}
}

func TestRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		request []byte
		isTap   bool
		ok      bool
	}{
		"good":         {marshalRequest(96), true, true},
		"too much":     {marshalRequest(MaxSnap + 1), true, false},
		"nothing":      {marshalRequest(0), true, false},
		"long":         {append(marshalRequest(96), 0), true, false},
		"unknown bits": {append(marshalRequest(96)[:15], 1), true, false},
		"a socket's":   {make([]byte, 16), false, true},
		"empty":        {nil, false, true},
	} {
		if _, isTap, err := parseRequest(tc.request); isTap != tc.isTap || (err == nil) != tc.ok {
			t.Errorf("%s: %v, %v", name, isTap, err)
		}
	}
}

// A record that is accepted is written again as it was, but for its unused bytes.
func FuzzRecord(f *testing.F) {
	r := Record{Enqueued: 1, Departs: 2, Missed: 3, Hop: 4, Length: 60, Packets: 1, Fate: Marked, Data: []byte("abc")}
	f.Add(r.Append(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := Parse(b)
		if err != nil {
			return
		}
		again := r.Append(nil)
		clear(b[37:40])
		if !bytes.Equal(append(again, rest...), b) {
			t.Errorf("% x was parsed as %+v", b, r)
		}
	})
}
