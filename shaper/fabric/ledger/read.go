// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"
)

// Content is what a ledger says.
type Content struct {
	Info
	Connections []Connection
	Unnoted     uint64   // connections for which the table had no place
	Records     []Record // of messages: whole ones, in the order in which they were begun
	Tasks       []Task   // likewise
	Ops         []Op
	Ranges      []Range   // likewise
	Kernels     []Kernel  // in the order in which they were launched
	Channels    []Channel // in the order in which they began
	LostRanges  uint64    // that had no place, or lost their name
	Overwritten uint64    // older records whose place newer ones have taken
	// records that were being written when the process ended or the file was read, or that are damaged
	Unreadable uint64
	Cut        bool // the file ends before its last record
}

// Read reads a ledger, which a process may be writing.
func Read(path string) (*Content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a ledger: %w", err)
	}
	defer f.Close()
	first, _, err := readUsed(f)
	if err != nil {
		return nil, fmt.Errorf("read a ledger: %w", err)
	}
	b, size, err := readUsed(f)
	if err != nil {
		return nil, fmt.Errorf("read a ledger: %w", err)
	}
	dropChanged(b, first)
	c, err := parse(b, size)
	if err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", path, err)
	}
	return c, nil
}

// Progress is how many records the ledgers in a folder have got so far, in all. A ledger that cannot be read, for
// example because it is being made, has none.
func Progress(dir string) (records uint64) {
	paths, err := Files(dir)
	if err != nil {
		return 0
	}
	for _, path := range paths {
		h, err := readHeader(path)
		if err == nil && h.Magic == magic {
			records += h.Next
		}
	}
	return records
}

func readHeader(path string) (h header, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, fmt.Errorf("read the header of a ledger: %w", err)
	}
	defer f.Close()
	return headerOf(f)
}

func headerOf(f *os.File) (h header, err error) {
	b := make([]byte, unsafe.Sizeof(h))
	if _, err := f.ReadAt(b, 0); err != nil {
		return h, fmt.Errorf("read its header: %w", err)
	}
	return *(*header)(unsafe.Pointer(&b[0])), nil
}

// readUsed reads the part of the file that has been written, and says how long the file is.
func readUsed(f *os.File) (b []byte, size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("look at it: %w", err)
	}
	size = st.Size()
	var h header
	if size >= int64(unsafe.Sizeof(h)) {
		if h, err = headerOf(f); err != nil {
			return nil, 0, err
		}
	}
	used := size
	if h.Magic == magic && h.Next < uint64(size)/recordSize {
		used = min(size, recordsAt+int64(h.Next)*recordSize)
	}
	b = make([]byte, used)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read %d bytes of it: %w", used, err)
	}
	return b[:n], size, nil
}

func (r *Record) isSane() bool {
	for _, t := range []int64{r.Posted, r.Modelled, r.Returned} {
		if t < 0 || t > maxTime {
			return false
		}
	}
	return r.Size <= maxSize
}

// dropChanged makes the records of b unreadable that changed while the file was read. If the writing
// of a record, of which only a part was new at the first reading, has not gone on since, then b's
// count of records, which was read later, says that the record before it is gone.
func dropChanged(b, first []byte) {
	for at := recordsAt; at+recordSize <= min(len(b), len(first)); at += recordSize {
		if !bytes.Equal(b[at:at+recordSize], first[at:at+recordSize]) {
			clear(b[at : at+recordSize])
		}
	}
}

// parse reads the content of a file with so many bytes, of which b is the part that has been written.
func parse(b []byte, size int64) (*Content, error) {
	var h header
	if len(b) < int(unsafe.Sizeof(h)) {
		return nil, errors.New("it is too short for a ledger")
	}
	h = *(*header)(unsafe.Pointer(&b[0]))
	switch {
	case h.Magic != magic:
		return nil, errors.New("it is no ledger of ddlemu")
	case h.Version != version || h.RecordSize != recordSize:
		return nil, fmt.Errorf("it has version %d, this is version %d: use the ddlemu that wrote it", h.Version,
			version)
	case h.Capacity == 0 || h.Capacity&(h.Capacity-1) != 0 || h.Capacity > 1<<40 || h.VirtualClock > 1:
		return nil, errors.New("its header is damaged")
	}
	c := &Content{Info: Info{
		FabricID: h.FabricID, Job: h.Job, Rank: h.Rank, Node: h.Node, World: h.World, PID: h.PID,
		Virtual: h.VirtualClock == 1, TimeScale: h.TimeScale, Begun: h.Begun, BegunRealtime: h.BegunRealtime,
		NCCL: int(h.NCCL),
	}}
	c.Unnoted, c.LostRanges = h.LostConnections, h.LostRanges
	names := namesOf(b, h.Names)
	for i := range min(h.Connections, maxConnections) {
		if at := connectionsAt + i*uint64(unsafe.Sizeof(Connection{})); at+
			uint64(unsafe.Sizeof(Connection{})) <= uint64(len(b)) {
			c.Connections = append(c.Connections, *(*Connection)(unsafe.Pointer(&b[at])))
		}
	}
	c.Cut = uint64(max(0, size-recordsAt))/recordSize < h.Capacity
	stored := min(uint64(max(0, len(b)-recordsAt))/recordSize, h.Capacity)
	older := h.Next - min(h.Next, h.Capacity) // all records up to this number
	for i := range stored {
		at := unsafe.Pointer(&b[recordsAt+i*recordSize])
		if n := (*Record)(at).Number; n <= older || n > h.Next || (n-1)&(h.Capacity-1) != i {
			continue
		}
		c.add(at, names)
	}
	slices.SortFunc(c.Records, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(c.Tasks, func(a, b Task) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(c.Ranges, func(a, b Range) int { return cmp.Compare(a.Order, b.Order) })
	slices.SortFunc(c.Kernels, func(a, b Kernel) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(c.Channels, func(a, b Channel) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(c.Ops, func(a, b Op) int { return cmp.Compare(a.Number, b.Number) })
	c.Overwritten, c.Unreadable = older, h.Next-older-uint64(len(c.Records)+len(c.Tasks)+len(c.Ops)+len(c.Ranges)+
		len(c.Kernels)+len(c.Channels))
	return c, nil
}

// add adds the record at a place, unless it is damaged.
func (c *Content) add(at unsafe.Pointer, names []byte) {
	switch (*Record)(at).Kind {
	case Send, Receive:
		if r := (*Record)(at); r.isSane() {
			c.Records = append(c.Records, *r)
		}
	case TaskKind, KernelTask:
		c.Tasks = append(c.Tasks, *(*Task)(at))
	case OpKind:
		c.Ops = append(c.Ops, *(*Op)(at))
	case KernelKind:
		if k := (*Kernel)(at); k.isSane() {
			c.Kernels = append(c.Kernels, *k)
		}
	case ChannelKind:
		if x := (*Channel)(at); x.isSane() {
			c.Channels = append(c.Channels, *x)
		}
	case RangeKind:
		if r := (*RangeRecord)(at); r.isSane() {
			c.Ranges = append(c.Ranges, r.read(names))
		}
	}
}
