// SPDX-License-Identifier: Apache-2.0

// Package convert reads schedules of any format: MSCCL's XML, trees of ForestColl, algorithms of SCCL and TACCL, flows
// of TE-CCL, plans of MSCCL++. It knows by the content what a file is.
package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// maxFile is the largest file other than MSCCL's XML in bytes.
const maxFile = 64 << 20

// Read reads a schedule. name is the file's, for messages. o says for which collective trees are, and where its result
// is: a file of trees does not say it. collSaid says that the user chose o.Coll: then it is also the collective of
// MSCCL's XML without coll. Other formats do not use o.
func Read(in io.Reader, name string, o mk.Options, collSaid bool) (*schedule.Schedule, error) {
	r := bufio.NewReaderSize(in, 4096)
	head, err := r.Peek(2048)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	start := bytes.TrimLeft(head, "\ufeff \t\r\n")
	read := func(data []byte) (*schedule.Schedule, error) { return readTrees(data, o) }
	switch {
	case len(start) > 0 && start[0] == '{':
		read = readJSON
	case len(start) > 0 && start[0] == 0x80:
		return nil, fmt.Errorf(
			"%s: a Python pickle: it can run code, so it is not read: write the trees as XML "+
				"(spanning_trees_to_xml of ForestColl)", name)
	case !bytes.Contains(start, []byte("<Algo")):
		if !collSaid {
			o.Coll = ""
		}
		return msccl.Read(r, name, o.Coll)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, sayCut(err))
	}
	return s, nil
}

// sayCut is msccl.ErrCut for the errors of XML and JSON that end too early, else err. The libraries have no name for
// them.
func sayCut(err error) error {
	var inXML *xml.SyntaxError
	var inJSON *json.SyntaxError
	if errors.As(err, &inXML) && strings.HasPrefix(inXML.Msg, "unexpected EOF") || errors.As(err, &inJSON) &&
		inJSON.Error() == "unexpected end of JSON input" {
		return msccl.ErrCut
	}
	return err
}
