// SPDX-License-Identifier: Apache-2.0

// Package bounds bounds what readers make of files. A file can ask for much more than it has itself: by lists that
// share parts, by ranges of ranks, by counts. So a reader counts what it makes, and not only what it reads.
package bounds

import "fmt"

// What may be made of a file: free bytes of any, and perByte of each byte that was read. A number takes 2 bytes or more in
// a file and at most 40 in memory; a short name takes 4 and 16 more than its length. How much is kept of a large file is
// bounded apart (input.Limit).
const (
	free    = 32 << 20
	perByte = 48
)

// Budget counts what a reader makes of a file, whether it keeps that or not: the work is bounded with the memory. The
// zero value is that of a file of which nothing was read yet. A nil one has no bound.
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
