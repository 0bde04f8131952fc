// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// damaged is an error of a file that no export of Nsight Systems can be.
func damaged(why error) error {
	return fmt.Errorf("the file is cut or damaged: export it again (%w)", why)
}

// The first page of a file of SQLite, https://sqlite.org/fileformat2.html: the size of a page, and behind the file's
// header the kind of the page, how many cells it has, the page right of all, and where in the page the cells are.
const (
	atPageSize, atKind, atCells, atRight, atPlaces = 16, 100, 103, 108, 112

	innerPage, leafPage = 5, 13
)

// checkTables returns the size of a file of SQLite. It refuses a file whose list of tables is a tree of more than two
// levels, or has a page twice: SQLite reads the list before anything else, and such a one could take for ever. An
// export has some 100 tables, for which two levels are enough.
func checkTables(path string) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 1<<16) // the largest page
	n, err := io.ReadFull(f, page)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, damaged(err)
	}
	if n < atPlaces {
		return 0, damaged(fmt.Errorf("it has %d bytes", n))
	}
	stat, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if page[atKind] != innerPage {
		return stat.Size(), nil
	}
	page, pageSize := page[:n], int64(binary.BigEndian.Uint16(page[atPageSize:]))
	if pageSize == 1 {
		pageSize = 1 << 16
	}
	seen := map[uint32]bool{}
	at := atRight
	for cell := range int(binary.BigEndian.Uint16(page[atCells:])) + 1 {
		if place := atPlaces + 2*(cell-1); cell > 0 && place+2 <= n {
			at = int(binary.BigEndian.Uint16(page[place:]))
		}
		if at+4 > n {
			return 0, damaged(errors.New("the list of tables has a place behind its page"))
		}
		child, kind := binary.BigEndian.Uint32(page[at:]), make([]byte, 1)
		_, err := f.ReadAt(kind, (int64(child)-1)*pageSize)
		if err != nil || seen[child] || kind[0] != leafPage {
			return 0, damaged(fmt.Errorf("page %d is no page of the list of tables, or is there twice", child))
		}
		seen[child] = true
	}
	return stat.Size(), nil
}
