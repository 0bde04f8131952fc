// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// driver is the name of the driver for SQLite, which is not there with the build tag ddlemu_demo.
const driver = "sqlite"

// database is an export as SQLite.
type database struct {
	*sql.DB
	ctx     context.Context
	bytes   int64                      // of the file
	columns map[string]map[string]bool // by table

	// For progress: rows of all tables that are read, of those before this one, and of this one.
	total, before, rows int64
	read                int64 // rows of this one
	progress            func(float64)
}

// tableNames are the tables that are read.
var tableNames = []string{"StringIds", "NVTX_EVENTS", "NVTX_PAYLOAD_SCHEMA_ENTRIES", "CUPTI_ACTIVITY_KIND_KERNEL",
	"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "TARGET_INFO_GPU", "META_DATA_EXPORT"}

// readSQLite reads an export as SQLite.
func readSQLite(f input.File, limit *input.Limit) (r *recording, err error) {
	if !slices.Contains(sql.Drivers(), driver) {
		return nil, fmt.Errorf("%s: this ddlemu cannot read SQLite, because `make demo` has built it: run `make build`", f.Name)
	}
	path, done, err := f.Local()
	if err != nil {
		return nil, err
	}
	defer done()
	size, err := checkTables(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	// The file is not written and no one else writes it: no lock is taken and no journal is looked for.
	where := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: "mode=ro&immutable=1&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)"}
	handle, err := sql.Open(driver, where.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	defer handle.Close()
	handle.SetMaxOpenConns(1)
	db := &database{DB: handle, ctx: f.Context(), bytes: size, columns: map[string]map[string]bool{},
		progress: f.Progress}
	r = newRecording(f.Name, limit)
	if err := db.readAll(r); err != nil {
		if strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), "not a database") {
			err = damaged(err)
		}
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return r, nil
}

// readAll reads the tables.
func (db *database) readAll(r *recording) error {
	for _, name := range tableNames {
		if err := db.describe(name); err != nil {
			return err
		}
		if err := db.bounded(name); err != nil {
			return err
		}
	}
	if db.columns["NVTX_EVENTS"] == nil && db.columns["CUPTI_ACTIVITY_KIND_KERNEL"] == nil {
		return errors.New(
			"no table NVTX_EVENTS and no CUPTI_ACTIVITY_KIND_KERNEL: this is no export of Nsight Systems, " +
				"or nothing was traced: record with nsys profile -t cuda,nvtx")
	}
	names, err := db.names()
	if err != nil {
		return err
	}
	parts := []struct {
		table string // the one that is large
		read  func(*recording, map[int64]string) error
	}{
		{"NVTX_EVENTS", db.ranges}, {"CUPTI_ACTIVITY_KIND_KERNEL", db.kernels}, {"CUPTI_ACTIVITY_KIND_RUNTIME",
			db.launches},
		{"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", db.waits}, {"META_DATA_EXPORT", db.meta},
	}
	for _, part := range parts {
		db.total += db.size(part.table)
	}
	for _, part := range parts {
		db.rows, db.read = db.size(part.table), 0
		if err := part.read(r, names); err != nil {
			return err
		}
		db.before += db.rows
	}
	return nil
}

// leastRow is the least bytes that a row of a table takes: its place in the page, two lengths, its number and a value.
const leastRow = 5

// bounded refuses a table with more rows than fit into the file: pages of a damaged file can be part of a table many
// times, and to go through them would take for ever.
func (db *database) bounded(table string) error {
	if db.columns[table] == nil {
		return nil
	}
	most, rows := db.bytes/leastRow, int64(0)
	err := db.QueryRowContext(db.ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s NOT INDEXED LIMIT %d)", table,
		most+1)).Scan(&rows)
	if err == nil && rows > most {
		err = damaged(fmt.Errorf("table %s has more than %d rows, and the file %d bytes", table, most, db.bytes))
	}
	return err
}

// size is about how many rows a table has, 0 if there is none. Nothing depends on it but progress.
func (db *database) size(table string) (rows int64) {
	if db.columns[table] == nil ||
		db.QueryRowContext(db.ctx, "SELECT coalesce(max(rowid), 0) FROM "+table).Scan(&rows) != nil {
		return 0
	}
	return min(max(rows, 0), 1<<40)
}

// describe keeps the columns of a table, if there is one. A view is no table: it could take any time.
func (db *database) describe(table string) error {
	var statement string
	err := db.QueryRowContext(db.ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?",
		table).Scan(&statement)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !strings.HasPrefix(strings.ToUpper(statement), "CREATE TABLE") {
		return nil
	}
	if err != nil {
		return err
	}
	columns := map[string]bool{}
	err = db.each("SELECT name FROM pragma_table_info(?)", []any{table}, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		columns[name] = true
		return err
	})
	db.columns[table] = columns
	return err
}

// has says whether there is a table with these columns.
func (db *database) has(table string, columns ...string) bool {
	for _, c := range columns {
		if !db.columns[table][c] {
			return false
		}
	}
	return db.columns[table] != nil
}

// or is a column, or a value if the table has none.
func (db *database) or(table, column, value string) string {
	if db.has(table, column) {
		return column
	}
	return value
}

// each calls row for each row of a query.
func (db *database) each(query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(db.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
		if db.read++; db.read%4096 == 0 && db.total > 0 {
			db.progress(float64(db.before+min(db.read, db.rows)) / float64(db.total))
		}
	}
	return rows.Err()
}

// eachOf calls row for each row of a table with some columns. Their numbers must grow: else a page is there twice.
func (db *database) eachOf(table, columns, where string, args []any, row func(scan func(...any) error) error) error {
	var last sql.NullInt64
	query := fmt.Sprintf("SELECT rowid, %s FROM %s NOT INDEXED %s", columns, table, where)
	return db.each(query, args, func(scan func(...any) error) error {
		return row(func(to ...any) error {
			number := int64(0)
			err := scan(append([]any{&number}, to...)...)
			if err == nil && last.Valid && number <= last.Int64 {
				err = damaged(fmt.Errorf("row %d of table %s comes after row %d", number, table, last.Int64))
			}
			last = sql.NullInt64{Int64: number, Valid: true}
			return err
		})
	})
}

// short is a column of a table whose values have at most maxValue bytes, or else another value. Values that share pages
// of the file could have much more together than the file has.
func (db *database) short(table, column, otherwise string) string {
	if !db.has(table, column) {
		return "NULL"
	}
	return fmt.Sprintf("CASE WHEN length(%s) > %d THEN %s ELSE %[1]s END", column, maxValue, otherwise)
}

// maxValue is the most bytes that are read of a text or payload of a call. NCCL's have some 100.
const maxValue = 4096

// names are the texts that are needed, by their ids: the names of functions and kernels of NCCL, and of calls by which
// a stream waits.
func (db *database) names() (map[int64]string, error) {
	names := map[int64]string{}
	if !db.has("StringIds", "id", "value") {
		return names, nil
	}
	err := db.each("SELECT id, value FROM StringIds NOT INDEXED WHERE length(value) < 1000 AND value LIKE 'nccl%'", nil,
		func(scan func(...any) error) error {
			var id int64
			var value string
			err := scan(&id, &value)
			names[id] = value
			return err
		})
	return names, err
}

// ranges reads NCCL's ranges and their payloads.
func (db *database) ranges(r *recording, names map[int64]string) error {
	const table = "NVTX_EVENTS"
	if !db.has(table, "start", "end", "eventType", "globalTid", "textId") {
		return nil
	}
	layouts, err := db.layouts()
	if err != nil {
		return err
	}
	const pushPop = 59 // ENUM_NSYS_EVENT_TYPE: NvtxPushPopRange
	text := db.short(table, "text", "NULL")
	columns := fmt.Sprintf(`start, coalesce("end", start), globalTid, textId, %s, %s, %s, %s`, text,
		db.or(table, "domainId", "0"), db.short(table, "jsonText", "'-'"), db.short(table, "binaryData", "x'00'"))
	where := fmt.Sprintf("WHERE eventType = %d AND (textId IN (%s) OR %s LIKE 'nccl%%') AND globalTid IS NOT NULL",
		pushPop, idsOf(names, isRange), text)
	return db.eachOf(table, columns, where, nil, func(scan func(...any) error) error {
		var e rangeEvent
		var id, domain sql.NullInt64
		var text, asText sql.NullString
		var data []byte
		if err := scan(&e.start, &e.end, &e.thread, &id, &text, &domain, &asText, &data); err != nil {
			return err
		}
		if e.function = names[id.Int64]; text.Valid {
			e.function = text.String
		}
		if !isRange(e.function) {
			return nil
		}
		switch {
		case len(data) > 0:
			schema, body, ok := splitBinary(data)
			l, known := layouts[schemaKey{domain.Int64, int64(schema)}]
			if !known {
				l = layoutOf(e.function, len(body))
			}
			if ok {
				e.payload, ok = l.read(body)
			}
			if !ok {
				r.broken++
			}
		case asText.String != "":
			var ok bool
			if e.payload, ok = readText(asText.String); !ok {
				r.broken++
			}
		}
		return r.addRange(e)
	})
}

// schemaKey finds the schema of a payload.
type schemaKey struct{ domain, schema int64 }

// layouts reads how payloads are laid out. A schema that two processes describe differently is left out.
func (db *database) layouts() (map[schemaKey]layout, error) {
	layouts := map[schemaKey]layout{}
	const table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
	if !db.has(table, "domainId", "schemaId", "idx", "type", "name", "offset") {
		return layouts, nil
	}
	seen := map[schemaKey]map[int64]entry{}
	bad := map[schemaKey]bool{}
	err := db.each(
		`SELECT DISTINCT domainId, schemaId, idx, coalesce(type, 0), coalesce(name, ''), coalesce("offset", 0) FROM `+
			table+" NOT INDEXED WHERE coalesce(length(name), 0) < 100 ORDER BY 1, 2, 3",
		nil, func(scan func(...any) error) error {
			var key schemaKey
			var idx, kind, offset int64
			var name string
			if err := scan(&key.domain, &key.schema, &idx, &kind, &name, &offset); err != nil {
				return err
			}
			f, known := fieldNames[name]
			if !known || entrySize(kind) == 0 || offset < 0 {
				return nil
			}
			e := entry{f, uint64(offset), entrySize(kind)}
			if seen[key] == nil {
				seen[key] = map[int64]entry{}
			}
			if before, twice := seen[key][idx]; twice && before != e {
				bad[key] = true
			} else if !twice {
				seen[key][idx] = e
				layouts[key] = append(layouts[key], e)
			}
			return nil
		})
	for key := range bad {
		layouts[key] = nil
	}
	return layouts, err
}

// kernels reads the kernels: kernels of NCCL, and when the others ran.
func (db *database) kernels(r *recording, names map[int64]string) error {
	const table = "CUPTI_ACTIVITY_KIND_KERNEL"
	if !db.has(table, "start", "end", "streamId", "correlationId", "globalPid", "demangledName") {
		return nil
	}
	columns := `start, "end", coalesce(globalPid, 0), streamId, coalesce(correlationId, 0), demangledName, ` +
		db.or(table, "shortName", "demangledName")
	return db.eachOf(table, columns, "", nil, func(scan func(...any) error) error {
		var k kernel
		var long, short int64
		if err := scan(&k.start, &k.end, &k.process, &k.stream, &k.correlation, &long, &short); err != nil {
			return err
		}
		return r.addKernel(k, names[long], names[short])
	})
}

// idsOf is a list, for SQL, of the ids of names for which is is true.
func idsOf(names map[int64]string, is func(string) bool) string {
	var ids []string
	for id, name := range names {
		if is(name) {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	return strings.Join(ids, ",")
}

// launches reads the launches of NCCL's kernels.
func (db *database) launches(r *recording, names map[int64]string) error {
	if len(r.kernels) == 0 || !db.has("CUPTI_ACTIVITY_KIND_RUNTIME", "start", "globalTid", "correlationId") {
		return nil
	}
	wanted := r.wantedLaunches()
	ids := idsOf(names, isKernel)
	where := fmt.Sprintf(`WHERE globalTid IS NOT NULL AND correlationId IN
		(SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL NOT INDEXED WHERE demangledName IN (%s) OR %s IN (%s))`,
		ids, db.or("CUPTI_ACTIVITY_KIND_KERNEL", "shortName", "demangledName"), ids)
	const columns = "start, globalTid, correlationId"
	return db.eachOf("CUPTI_ACTIVITY_KIND_RUNTIME", columns, where, nil, func(scan func(...any) error) error {
		var l launch
		var correlation int64
		if err := scan(&l.start, &l.thread, &correlation); err != nil {
			return err
		}
		if key := (launchKey{l.thread.process(), correlation}); wanted[key] {
			return r.addLaunch(key, l)
		}
		return nil
	})
}

// wantedLaunches are the launches of NCCL's kernels.
func (r *recording) wantedLaunches() map[launchKey]bool {
	wanted := make(map[launchKey]bool, len(r.kernels))
	for _, k := range r.kernels {
		wanted[launchKey{k.process, k.correlation}] = true
	}
	return wanted
}

// waits reads the calls by which a stream waits for an event.
func (db *database) waits(r *recording, _ map[int64]string) error {
	if !db.has("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "start", "end", "streamId", "correlationId", "globalPid",
		"syncType") {
		return nil
	}
	const streamWait = 2 // CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT
	const columns = `start, "end", streamId, coalesce(correlationId, 0), coalesce(globalPid, 0)`
	const table, where = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "WHERE syncType = ?"
	return db.eachOf(table, columns, where, []any{streamWait}, func(scan func(...any) error) error {
		var s span
		var p process
		if err := scan(&s.start, &s.end, &s.stream, &s.correlation, &p); err != nil {
			return err
		}
		return r.addWait(p, s)
	})
}

// meta reads the hardware, and whether payloads were exported.
func (db *database) meta(r *recording, _ map[int64]string) error {
	if db.has("META_DATA_EXPORT", "name", "value") {
		err := db.each(`SELECT coalesce(value, '') FROM META_DATA_EXPORT NOT INDEXED
			WHERE name = 'EXPORT_PARAM_INCLUDE_BLOBS' AND length(value) < 100`, nil,
			func(scan func(...any) error) error {
				var value string
				err := scan(&value)
				r.noBlobs = value == "false"
				return err
			})
		if err != nil {
			return err
		}
	}
	if !db.has("TARGET_INFO_GPU", "name") {
		return nil
	}
	err := db.QueryRowContext(db.ctx, "SELECT coalesce(name, '') FROM TARGET_INFO_GPU LIMIT 1").Scan(&r.hardware)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
