// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/aicb"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/chakra"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/goal"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/inspector"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/kineto"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/ncclcalls"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/ncclprofiler"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/opcsv"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorchet"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/simai"
)

// Read reads a job from files of one format, or the first of the names if kind is "". Traces of Kineto may be among
// execution traces of PyTorch. A workload without an error is valid.
func Read(files []input.File, kind Kind, o input.Options) (*workload.Workload, error) {
	if len(files) == 0 {
		return nil, errors.New("no file")
	}
	defer bounds.CollectEarly()()
	o.Limit = input.NewLimit(o.MaxOps)
	groups := map[Kind][]input.File{}
	first := kind
	for _, f := range files {
		k := kind
		if kind == "" || kind == PyTorchET {
			var err error
			if k, err = Detect(f); err != nil {
				return nil, err
			}
		}
		if first == "" {
			first = k
		}
		groups[k] = append(groups[k], f)
	}
	w, err := read(groups, first, o)
	if err != nil {
		return nil, looksLike(err, files[0], kind)
	}
	if first != Native {
		if err := o.Limit.Check(len(w.Ops)); err != nil {
			return nil, fmt.Errorf("%s: %w", files[0].Name, err)
		}
	}
	if err := checkRanks(files, w, o); err != nil {
		return nil, err
	}
	if err := w.Validate(); err != nil {
		if line, ok := errors.AsType[*workload.LineError](err); ok {
			err = line.Err
		}
		return nil, fmt.Errorf("%s: what is recorded makes no workload: %w", files[0].Name, err)
	}
	return w, nil
}

// looksLike adds to an error the format that a file looks like, if the caller named another one.
func looksLike(err error, f input.File, named Kind) error {
	if named == "" || named == PyTorchET { // the format was found by the content
		return err
	}
	if k, unknown := Detect(f); unknown == nil && k != named {
		return fmt.Errorf("%w (the file looks like %s)", err, k)
	}
	return err
}

// checkRanks refuses a job of another number of ranks than the options say: its reader did not need them. It notes
// where no group has as many ranks as the options say.
func checkRanks(files []input.File, w *workload.Workload, o input.Options) error {
	file := files[0].Name
	if n := len(files) - 1; n > 0 {
		file = fmt.Sprintf("%s (with %s more)", file, units.Count(n, "file"))
	}
	if err := o.CheckRanks(file, w.Head.Ranks); err != nil || o.Ranks == 0 || len(w.Head.Comms) == 0 {
		return err
	}
	most := 0
	for _, c := range w.Head.Comms {
		most = max(most, len(c.Ranks))
	}
	if most < o.Ranks {
		w.Head.Source.Notes = append(w.Head.Source.Notes,
			fmt.Sprintf("no call is of all %d ranks (--ranks): the largest group has %d", o.Ranks, most))
	}
	return nil
}

func read(groups map[Kind][]input.File, kind Kind, o input.Options) (*workload.Workload, error) {
	if traces := groups[PyTorchET]; len(traces) > 0 {
		delete(groups, PyTorchET)
		timed := groups[Kineto]
		delete(groups, Kineto)
		kind = PyTorchET
		if err := alone(groups, kind); err != nil {
			return nil, err
		}
		return pytorchet.Read(traces, timed, o)
	}
	files := groups[kind]
	delete(groups, kind)
	if err := alone(groups, kind); err != nil {
		return nil, err
	}
	r, ok := readers[kind]
	switch {
	case r.files != nil:
		return r.files(files, o)
	case ok && len(files) > 1:
		return nil, fmt.Errorf("%s and %s: a job in the format %s is one file", files[0].Name, files[1].Name, kind)
	case ok:
		return r.file(files[0], o)
	case removed[kind] != "":
		return nil, fmt.Errorf("the format %s was removed: %s", kind, removed[kind])
	}
	return nil, fmt.Errorf("%q is no format: there are %s", kind, list())
}

// readers read the formats but [PyTorchET]: the files of a job, or its only file.
var readers = map[Kind]struct {
	files func([]input.File, input.Options) (*workload.Workload, error)
	file  func(input.File, input.Options) (*workload.Workload, error)
}{
	Kineto: {files: func(files []input.File, o input.Options) (*workload.Workload, error) {
		return kineto.Read(files, o, nil)
	}},
	Chakra:    {files: chakra.Read},
	Inspector: {files: inspector.Read},
	Profiler:  {files: ncclprofiler.Read},
	NCCLLog:   {files: ncclcalls.Read},
	Nsys:      {files: nsys.Read},
	FlightRec: {files: flightrec.Read},
	GOAL:      {file: goal.Read},
	SimAI:     {file: simai.Read},
	AICB:      {file: aicb.Read},
	OpCSV:     {file: opcsv.Read},
	Native:    {file: native},
}

// removed are the formats of earlier versions, with what to record instead.
var removed = map[Kind]string{
	"horovod":    "record the job with NCCL_DEBUG=INFO (nccllog) or NCCL Inspector (inspector)",
	"parambasic": "record execution traces of PyTorch (pytorchet)",
}

func native(f input.File, _ input.Options) (*workload.Workload, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return workload.Read(f.Name, in)
}

// alone refuses files of other formats than the job's format.
func alone(others map[Kind][]input.File, kind Kind) error {
	for k, files := range others {
		return fmt.Errorf("%s is of the format %s and others are of %s: give the files of one job", files[0].Name, k,
			kind)
	}
	return nil
}

// Write writes a workload in a format that has writers: ddlemu, chakra or goal. It calls create for each file with what
// its name has before the ending: "" for a format of one file, else such as ".3" for rank 3.
func Write(w *workload.Workload, kind Kind, create func(part string) (io.WriteCloser, error)) error {
	if kind == Chakra {
		return chakra.Write(w, create)
	}
	var write func(io.Writer) error
	switch kind {
	case Native:
		write = w.Write
	case GOAL:
		write = func(out io.Writer) error { return goal.Write(out, w) }
	default:
		return fmt.Errorf("the format %s cannot be written: there are %s", kind,
			strings.Join([]string{string(Native), string(Chakra), string(GOAL)}, ", "))
	}
	out, err := create("")
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}
