// SPDX-License-Identifier: Apache-2.0

// Package nsystest makes exports of Nsight Systems for tests.
package nsystest

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

// Database is the content of a database of statements of SQL.
func Database(statements ...string) (data []byte, err error) {
	dir, err := os.MkdirTemp("", "ddlemu-nsys-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "job.sqlite")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	for _, s := range statements {
		if _, err = db.Exec(s); err != nil {
			break
		}
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// SharedPages is an export in which the table of NCCL's ranges is a tree of 6 levels, and all children of a page are
// the same page: 60^5 times the rows of one leaf, none of them of NCCL, in a few KB.
func SharedPages() ([]byte, error) {
	const size, levels, children = 512, 6, 60
	data, err := Database("PRAGMA page_size = 512",
		`CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, globalTid INTEGER, textId INTEGER,
			text TEXT)`,
		"INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 4, 5, 'x')")
	if err != nil {
		return nil, err
	}
	const root = 2 // the first page after the schema's
	leaf := bytes.Clone(data[(root-1)*size:][:size])
	pages := len(data) / size
	for level := range levels - 1 {
		page := make([]byte, size)
		child := uint32(pages + level + 1)
		page[0] = 5 // an inner page of a table
		binary.BigEndian.PutUint16(page[3:], children)
		binary.BigEndian.PutUint32(page[8:], child)
		at := size
		for cell := range children {
			at -= 5 // the child and the largest row id in it
			binary.BigEndian.PutUint32(page[at:], child)
			page[at+4] = byte(cell + 1)
			binary.BigEndian.PutUint16(page[12+2*cell:], uint16(at))
		}
		binary.BigEndian.PutUint16(page[5:], uint16(at))
		if level == 0 {
			copy(data[(root-1)*size:], page)
		} else {
			data = append(data, page...)
		}
	}
	data = append(data, leaf...)
	binary.BigEndian.PutUint32(data[28:], uint32(len(data)/size))
	return data, nil
}

// SharedSchema is an export whose list of tables is a tree in which all children of the first page are one page.
func SharedSchema() ([]byte, error) {
	statements := []string{"PRAGMA page_size = 512"}
	for i := range 40 {
		statements = append(statements, fmt.Sprintf("CREATE TABLE t%d (a INTEGER, b INTEGER, c INTEGER, d INTEGER)", i))
	}
	data, err := Database(statements...)
	if err != nil {
		return nil, err
	}
	const cells, right, places = 103, 108, 112 // in the first page
	for cell := range int(binary.BigEndian.Uint16(data[cells:])) {
		copy(data[binary.BigEndian.Uint16(data[places+2*cell:]):], data[right:right+4])
	}
	return data, nil
}
