// SPDX-License-Identifier: Apache-2.0

// Package pickle reads the data in pickles of Python: numbers, text, lists, tuples and dicts. It builds no objects and
// runs nothing: a pickle that asks for it is refused.
package pickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/ddlemu/ddlemu/configs/bounds"
)

// maxText is the maximum length of a text, in bytes.
const maxText = 1 << 20

// Dict is a dict. Keys that are not text are written as text. Of equal keys the last value counts, as in Python.
type Dict struct {
	Keys   []string
	Values []any
	places map[string]int // of the keys, if they are many
	use
}

// use says what else has a value than what it was put into.
type use struct {
	kept  bool // the memo or another place of the stack has it
	freed bool // its memory is counted no more
}

// manyKeys is the number of keys from which on a dict has a table of them.
const manyKeys = 16

// place is where a key is, -1 if it is not there.
func (d *Dict) place(key string) int {
	if d.places == nil {
		return slices.Index(d.Keys, key)
	}
	if i, ok := d.places[key]; ok {
		return i
	}
	return -1
}

// set gives a key a value.
func (d *Dict) set(key string, value any) {
	if i := d.place(key); i >= 0 {
		d.Values[i] = value
		return
	}
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
	switch n := len(d.Keys); {
	case n > manyKeys:
		d.places[key] = n - 1
	case n == manyKeys:
		d.places = make(map[string]int, 2*manyKeys)
		for i, k := range d.Keys {
			d.places[k] = i
		}
	}
}

// Get is the value of a key, nil if there is none.
func (d *Dict) Get(key string) any {
	if i := d.place(key); i >= 0 {
		return d.Values[i]
	}
	return nil
}

// List is a list or a tuple.
type List struct {
	Items []any
	use
}

// Decoder reads one pickle.
type Decoder struct {
	in     *bufio.Reader
	read   int64 // bytes
	limit  int64
	reduce func(*Dict) bool
	budget bounds.Budget

	stack []any
	marks []int
	memo  []any
	held  int64 // bytes of what is kept, about
}

// NewDecoder returns a decoder that keeps at most about limit bytes. reduce may be nil; it is called with each dict
// when items have been added, and says whether it has used the dict up: then nil takes its place, and its memory is
// free.
func NewDecoder(in io.Reader, limit int64, reduce func(*Dict) bool) *Decoder {
	return &Decoder{in: bufio.NewReaderSize(in, 1<<16), limit: limit, reduce: reduce}
}

// maxDepth is how deep values may be in each other where they are weighed. Entries are 4 deep.
const maxDepth = 64

// Weigh counts what a caller that looks at each part of a value makes. A pickle may have a list many times that is in
// it once: it fails if the caller would make much more than was read.
func (d *Decoder) Weigh(value any) error { return d.weigh(value, maxDepth) }

func (d *Decoder) weigh(value any, depth int) error {
	if depth == 0 {
		return fmt.Errorf("lists in lists, more than %d deep: this is no dump, or a damaged one", maxDepth)
	}
	size, parts := int64(slot), []any(nil)
	switch v := value.(type) {
	case string:
		size += int64(len(v))
	case *List:
		parts = v.Items
	case *Dict:
		parts = v.Values
		for _, key := range v.Keys {
			size += int64(len(key))
		}
	}
	if err := d.budget.Make(1, size); err != nil {
		return err
	}
	for _, part := range parts {
		if err := d.weigh(part, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the value of the pickle: nil, bool, int64, float64, string, *List or *Dict. An error says at which byte.
func (d *Decoder) Read() (any, error) {
	value, err := d.run()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends in the middle: it was cut")
	}
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.read, err)
	}
	return value, nil
}

// run executes the operations of the pickle.
func (d *Decoder) run() (any, error) {
	head, err := d.bytes(2)
	if err != nil {
		return nil, err
	}
	if head[0] != proto || head[1] < 2 || head[1] > 5 {
		return nil, errors.New("no pickle of protocol 2 to 5")
	}
	for {
		op, err := d.bytes(1)
		if err != nil {
			return nil, err
		}
		if op[0] == stop {
			values, err := d.take(1)
			if err != nil {
				return nil, err
			}
			return values[0], nil
		}
		if err := d.step(op[0]); err != nil {
			return nil, err
		}
		if d.held > d.limit {
			return nil, fmt.Errorf("the pickle needs more than %d MiB of memory", d.limit>>20)
		}
	}
}

// The operations, as Python's pickletools names them.
const (
	proto           = 0x80
	stop            = '.'
	frame           = 0x95
	mark            = '('
	pop             = '0'
	popMark         = '1'
	dup             = '2'
	none            = 'N'
	newTrue         = 0x88
	newFalse        = 0x89
	binInt          = 'J'
	binInt1         = 'K'
	binInt2         = 'M'
	long1           = 0x8a
	binFloat        = 'G'
	binUnicode      = 'X'
	shortBinUnicode = 0x8c
	binUnicode8     = 0x8d
	binString       = 'T'
	shortBinString  = 'U'
	binBytes        = 'B'
	shortBinBytes   = 'C'
	emptyList       = ']'
	emptyTuple      = ')'
	emptyDict       = '}'
	list            = 'l'
	tuple           = 't'
	dict            = 'd'
	tuple1          = 0x85
	tuple2          = 0x86
	tuple3          = 0x87
	appendOne       = 'a'
	appends         = 'e'
	setItem         = 's'
	setItems        = 'u'
	binPut          = 'q'
	longBinPut      = 'r'
	binGet          = 'h'
	longBinGet      = 'j'
	memoize         = 0x94
)

// objects are the operations that find or build objects of Python.
var objects = map[byte]string{
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ",
	0x92: "NEWOBJ_EX",
	'P':  "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}

// operand is how many bytes an operation has behind it: a number, or the size of a text or of a number.
var operand = [256]int{frame: 8, binInt: 4, binInt1: 1, binInt2: 2, long1: 1, binFloat: 8, binUnicode: 4,
	shortBinUnicode: 1, binUnicode8: 8, binString: 4, shortBinString: 1, binBytes: 4, shortBinBytes: 1, binPut: 1,
	longBinPut: 4, binGet: 1, longBinGet: 4}

// step executes one operation other than stop.
func (d *Decoder) step(op byte) error {
	n, err := d.unsigned(operand[op])
	if err != nil {
		return err
	}
	switch op {
	case none:
		return d.push(nil)
	case newTrue, newFalse:
		return d.push(op == newTrue)
	case frame:
		return nil
	case binInt:
		return d.push(int64(int32(n)))
	case binInt1, binInt2:
		return d.push(int64(n))
	case long1:
		return d.long(n)
	case binFloat:
		return d.push(math.Float64frombits(bits.ReverseBytes64(n)))
	case binUnicode, shortBinUnicode, binUnicode8, binString, shortBinString, binBytes, shortBinBytes:
		return d.text(n)
	case mark:
		d.marks = append(d.marks, len(d.stack))
		d.held += 8
		return nil
	case pop, popMark, dup:
		return d.arrange(op)
	case emptyList, emptyTuple:
		return d.push(d.newList(nil))
	case emptyDict:
		return d.push(d.newDict())
	case list, tuple, dict, tuple1, tuple2, tuple3:
		return d.collect(op)
	case appendOne, appends, setItem, setItems:
		return d.add(op)
	case binPut, longBinPut:
		return d.put(n)
	case memoize:
		return d.put(uint64(len(d.memo)))
	case binGet, longBinGet:
		return d.get(n)
	}
	if name, ok := objects[op]; ok {
		return fmt.Errorf("the pickle builds an object of Python (%s), which is not done here", name)
	}
	return fmt.Errorf("unknown operation %#x of a pickle", op)
}

// bytes reads n bytes, at most 8.
func (d *Decoder) bytes(n int) ([]byte, error) {
	b, err := d.in.Peek(n)
	if err != nil {
		return nil, err
	}
	d.count(int64(n))
	_, err = d.in.Discard(n)
	return b, err
}

// count counts bytes that were read.
func (d *Decoder) count(n int64) {
	d.read += n
	d.budget.Read(n)
}

// unsigned reads a number of n bytes.
func (d *Decoder) unsigned(n int) (uint64, error) {
	if n == 0 {
		return 0, nil
	}
	b, err := d.bytes(n)
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), nil
}

// long pushes a number of so many bytes.
func (d *Decoder) long(size uint64) error {
	if size > 8 {
		return fmt.Errorf("a number of %d bytes: at most 8 are read", size)
	}
	value, err := d.unsigned(int(size))
	if err != nil {
		return err
	}
	shift := 64 - 8*size
	return d.push(int64(value<<shift) >> shift) // the sign is that of the highest byte
}

func (d *Decoder) text(size uint64) error {
	if size > maxText {
		return fmt.Errorf("a text of %d bytes: at most %d are read", size, maxText)
	}
	b := make([]byte, size)
	read, err := io.ReadFull(d.in, b)
	d.count(int64(read))
	if err != nil {
		return err
	}
	d.held += int64(size) + 16
	return d.push(string(b))
}

// slot is what a value costs in a list or on the stack, in bytes: the value, and the number or the head of the text in
// it.
const slot = 32

func (d *Decoder) push(v any) error {
	d.stack = append(d.stack, v)
	d.held += slot
	return nil
}

var errStack = errors.New("the pickle takes a value that is not there")

// take takes the last n values, none from before the last mark. They are valid until the next push.
func (d *Decoder) take(n int) ([]any, error) {
	at := len(d.stack) - n
	if at < 0 || len(d.marks) > 0 && d.marks[len(d.marks)-1] > at {
		return nil, errStack
	}
	values := d.stack[at:]
	d.stack = d.stack[:at]
	d.held -= int64(n) * slot
	return values, nil
}

// popMark takes the values since the last mark. They are valid until the next push.
func (d *Decoder) popMark() ([]any, error) {
	if len(d.marks) == 0 {
		return nil, errors.New("the pickle takes values without a mark")
	}
	at := d.marks[len(d.marks)-1]
	d.marks = d.marks[:len(d.marks)-1]
	values := d.stack[at:]
	d.stack = d.stack[:at]
	d.held -= int64(len(values))*slot + 8
	return values, nil
}

// arrange changes the stack.
func (d *Decoder) arrange(op byte) error {
	switch {
	case op == popMark || op == pop && len(d.marks) > 0 && d.marks[len(d.marks)-1] == len(d.stack):
		_, err := d.popMark()
		return err
	case op == pop:
		_, err := d.take(1)
		return err
	}
	values, err := d.take(1)
	if err != nil {
		return err
	}
	v := values[0]
	keep(v)
	return errors.Join(d.push(v), d.push(v))
}

// keep notes that the memo or another place of the stack has a value.
func keep(v any) {
	switch v := v.(type) {
	case *List:
		v.kept = true
	case *Dict:
		v.kept = true
	}
}

const (
	headBytes  = 64 // of a list or dict
	tableBytes = 64 // of a key in the table of a dict
)

// pairBytes is what n keys and values take in a dict.
func pairBytes(n int) int64 {
	size := int64(n) * (slot + 16)
	if n >= manyKeys {
		size += int64(n) * tableBytes
	}
	return size
}

func (d *Decoder) newList(items []any) *List {
	d.held += headBytes + int64(len(items))*slot
	return &List{Items: append([]any(nil), items...)}
}

func (d *Decoder) newDict() *Dict {
	d.held += headBytes
	return &Dict{}
}

// collect makes a list, tuple or dict of the values on the stack.
func (d *Decoder) collect(op byte) error {
	var values []any
	var err error
	switch op {
	case tuple1, tuple2, tuple3:
		values, err = d.take(int(op-tuple1) + 1)
	default:
		values, err = d.popMark()
	}
	if err != nil {
		return err
	}
	if op != dict {
		return d.push(d.newList(values))
	}
	made := d.newDict()
	if err := d.items(made, values); err != nil {
		return err
	}
	err = d.push(made)
	d.use(made)
	return err
}

// add adds values to the list or the dict below them.
func (d *Decoder) add(op byte) error {
	var values []any
	var err error
	switch op {
	case appendOne:
		values, err = d.take(1)
	case setItem:
		values, err = d.take(2)
	default:
		values, err = d.popMark()
	}
	if err != nil {
		return err
	}
	if len(d.stack) == 0 {
		return errStack
	}
	switch to := d.stack[len(d.stack)-1].(type) {
	case *List:
		if op == setItem || op == setItems {
			break
		}
		to.Items = append(to.Items, values...)
		d.held += int64(len(values)) * slot
		return nil
	case *Dict:
		if op == appendOne || op == appends {
			break
		}
		err := d.items(to, values)
		d.use(to)
		return err
	}
	return errors.New("the pickle adds a value to what is no list or dict")
}

// items adds keys and values to a dict.
func (d *Decoder) items(to *Dict, values []any) error {
	if len(values)%2 != 0 {
		return errors.New("a dict with a key without a value")
	}
	for i := 0; i < len(values); i += 2 {
		key, ok := values[i].(string)
		if !ok {
			switch k := values[i].(type) {
			case int64, bool, float64, nil:
				key = fmt.Sprint(k)
			default:
				return errors.New("a dict with a key that is no text and no number")
			}
		}
		before := len(to.Keys)
		to.set(key, values[i+1])
		d.held += pairBytes(len(to.Keys)) - pairBytes(before)
	}
	return nil
}

// use lets reduce use the dict on top of the stack up.
func (d *Decoder) use(top *Dict) {
	if d.reduce == nil || !d.reduce(top) {
		return
	}
	d.release(top, releaseDepth)
	top.Keys, top.Values, top.places = nil, nil, nil
	d.stack[len(d.stack)-1] = nil
}

// releaseDepth is how deep lists in a dict that is used up are looked at: sizes are lists in a list in a dict.
const releaseDepth = 4

// release counts what a value no longer keeps, once, although the dict may have it twice. What the memo or the stack
// has is kept: of the dict on top, which loses its items, only the head.
func (d *Decoder) release(v any, depth int) {
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case *Dict:
		if d.free(&v.use) || depth == releaseDepth {
			d.held -= pairBytes(len(v.Keys))
			for _, item := range v.Values {
				d.release(item, depth-1)
			}
		}
	case *List:
		if d.free(&v.use) {
			d.held -= int64(len(v.Items)) * slot
			for _, item := range v.Items {
				d.release(item, depth-1)
			}
		}
	}
}

// free counts the head of a list or dict no more, and says whether it did.
func (d *Decoder) free(u *use) bool {
	if u.kept || u.freed {
		return false
	}
	u.freed = true
	d.held -= headBytes
	return true
}

// put notes the value on top of the stack in the memo.
func (d *Decoder) put(at uint64) error {
	if len(d.stack) == 0 {
		return errStack
	}
	if grow := int64(at) - int64(len(d.memo)) + 1; grow > 0 {
		if d.held += grow * 16; d.held > d.limit {
			return nil // the caller says why
		}
		d.memo = append(d.memo, make([]any, grow)...)
	}
	v := d.stack[len(d.stack)-1]
	keep(v)
	d.memo[at] = v
	return nil
}

// get pushes a value of the memo.
func (d *Decoder) get(at uint64) error {
	if at >= uint64(len(d.memo)) {
		return errors.New("the pickle takes a value from the memo that is not there")
	}
	return d.push(d.memo[at])
}
