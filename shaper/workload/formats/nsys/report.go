// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

const sqliteMagic = "SQLite format 3\x00"

// Signs of the forms in which Nsight Systems writes. Reports of `nsys stats` have names of columns with units in
// brackets, and may have lines of the program before them.
var (
	signJSON   = regexp.MustCompile(`\A\{"data":\["|\A\{"Type":\d+,"\w+Event":\{`)
	signReport = regexp.MustCompile(
		`(?m)^(?:[^,\n]*,){0,3}"?(Start|End|Total Time|Projected Start|API Start|Orig Start) ?\([^)\n]*\)"?,`)
)

// Like tells whether a file that begins with head may be of Nsight Systems: an export, or a report of `nsys stats`.
func Like(head []byte) bool {
	return bytes.HasPrefix(head, []byte(sqliteMagic)) || signJSON.Match(head) || signReport.Match(head)
}

// Foreign says what a file of Nsight Systems is that has to be exported first; "" if it is none.
func Foreign(head []byte) string {
	begins := func(text string) bool { return bytes.HasPrefix(head, []byte(text)) }
	switch {
	case begins("NVIDIA Tegra Profiler Report"), begins("NVIDIA Nsight Systems Report"):
		return "it is a report of Nsight Systems: export it with " + howToExport
	case bytes.Contains(head[:min(len(head), 64)], []byte("NVIDIA Nsight Systems Stream")):
		return "it is a stream of Nsight Systems (.qdstrm): open it in Nsight Systems once, then export the report " +
			"with " + howToExport
	case begins("\x89HDF\r\n"), begins("PAR1"), begins("ARROW1"), begins("\xff\xff\xff\xff") &&
		bytes.Contains(head, []byte("StringIds")),
		begins(`data: "`) && bytes.Contains(head, []byte("\ndata: ")):
		return "it is HDF5, Parquet, Arrow or text: if it is an export of Nsight Systems, export the report again with " + howToExport
	}
	return ""
}

// refuseReport says what a report of `nsys stats` has of NCCL. No report has the sizes of calls.
func refuseReport(f input.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	counts := map[string]int{}
	kind := ""
	for lines := in.Lines(); lines.Next(); {
		if signReport.MatchString(lines.Text()) {
			counts, err = countKernels(lines)
			kind = "a report of `nsys stats`"
			if err != nil {
				return err
			}
			break
		}
	}
	if kind == "" {
		return fmt.Errorf("%s: this is no export of Nsight Systems", f.Name)
	}
	if len(counts) == 0 {
		return fmt.Errorf("%s: %s without kernels of NCCL, and reports have no sizes: export the report with %s",
			f.Name, kind, howToExport)
	}
	return fmt.Errorf("%s: %s has kernels of NCCL (%s) and no sizes: export the report with %s", f.Name, kind,
		list(counts), howToExport)
}

// countKernels counts the kernels of NCCL in the lines after the present one, which names the columns.
func countKernels(lines *input.Lines) (map[string]int, error) {
	columns := splitCSV(lines.Text())
	instances := slices.IndexFunc(columns, func(c string) bool { return c == "Instances" || c == "Kern Inst" })
	counts := map[string]int{}
	for lines.Next() {
		row := splitCSV(lines.Text())
		at := slices.IndexFunc(row, func(cell string) bool { return isKernel(strings.TrimSpace(cell)) })
		if at < 0 {
			continue
		}
		n := 1
		if instances >= 0 && instances < len(row) {
			if listed, err := strconv.Atoi(row[instances]); err == nil {
				n = listed
			}
		}
		counts[kernelKind(strings.TrimSpace(row[at]))] += n
	}
	return counts, lines.Err()
}

// splitCSV divides a line into its cells; nil if it is none.
func splitCSV(line string) []string {
	r := csv.NewReader(strings.NewReader(line))
	r.LazyQuotes = true
	cells, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return cells
}
