// SPDX-License-Identifier: Apache-2.0

// Package bounds bounds what readers make of files. A file can ask for much more than it has itself: by lists that
// share parts, by ranges of ranks, by counts. So a reader counts what it makes, and not only what it reads.
package bounds

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// What may be made of a file: free bytes of any, and perByte of each byte that was read. A number takes 2 bytes or more
// in a file and at most 40 in memory; a short name takes 4 and 16 more than its length. How much is kept of a large
// file is bounded apart (input.Limit).
const (
	free    = 32 << 20
	perByte = 48
)

// Budget counts what a reader makes of a file, whether it keeps that or not: the work is bounded with the memory. The
// zero value is for a file of which nothing was read yet. A nil one has no bound.
type Budget struct{ read, made int64 }

// Read counts bytes that were read of the file.
func (b *Budget) Read(n int64) {
	if b != nil {
		b.read += n
	}
}

// Make counts n parts of size bytes each that the reader is about to make. It fails if that is too much.
func (b *Budget) Make(n, size int64) error {
	if b == nil {
		return nil
	}
	allowed := free + perByte*b.read
	if n < 0 || size < 0 || size > 0 && n > (allowed-b.made)/size {
		return fmt.Errorf("what the file asks for needs more than %d MiB of memory, and the file has only %d KiB: it is "+
			"damaged, or made to take much memory; record it again", allowed>>20, max(b.read>>10, 1))
	}
	b.made += n * size
	return nil
}

// soft is the memory above which the garbage collector works harder while a file is read, in bytes.
const soft = 384 << 20

// CollectEarly lets the garbage collector work harder above 384 MiB until the caller calls what it returns: what a
// reader has no use for any more could else double the memory that the rest needs.
func CollectEarly() (end func()) {
	before := debug.SetMemoryLimit(min(soft, debug.SetMemoryLimit(-1)))
	return func() { debug.SetMemoryLimit(before) }
}

// MaxDocument is the most bytes of a file that is read as a whole: what ddlemu itself writes is smaller.
const MaxDocument = 16 << 20

// ReadFile is os.ReadFile of a file of at most MaxDocument bytes.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxDocument+1))
	if err == nil && len(text) > MaxDocument {
		err = fmt.Errorf("%s has more than %d MiB, and a file of its kind has less: give the right one", path,
			MaxDocument>>20)
	}
	return text, errors.Join(err, f.Close())
}
