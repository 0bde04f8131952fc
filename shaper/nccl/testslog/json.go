// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl/debuglog"
)

// maxJSON is the maximum size of a file of JSON in bytes: it is kept in memory.
const maxJSON = 64 << 20

// document is what nccl-tests since 2.17 writes with -J.
type document struct {
	Args   []string
	Env    []string // the whole environment, as NAME=value
	NCCL   int      `json:"nccl_version"`
	Config struct {
		Threads    int `json:"nthreads"`
		GPUs       int `json:"ngpus"`
		Iterations int
		Devices    []struct {
			Hostname string
			Product  string `json:"device_info"`
		}
	}
	Results []struct {
		Size, Count int64
		Type, RedOp string
		Root        string
		OutOfPlace  *jsonHalf `json:"out_of_place"`
		InPlace     *jsonHalf `json:"in_place"`
	}
}

// jsonHalf is a half of a row. Time is missing if CPUTime is there.
type jsonHalf struct {
	Time    *float64
	CPUTime *float64 `json:"cpu_time"`
	AlgBW   float64  `json:"alg_bw"`
	BusBW   float64  `json:"bus_bw"`
	Wrong   *float64 `json:"nwrong"`
}

// isJSON says whether the first character but blanks begins an object, which is not a line of a log that Docker
// keeps.
func isJSON(in *bufio.Reader) bool {
	head, _ := in.Peek(64)
	head = bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && !bytes.HasPrefix(head, []byte(debuglog.Wrapped))
}

func readJSON(in io.Reader) (Log, error) {
	limited := &io.LimitedReader{R: in, N: maxJSON}
	var d document
	if err := json.NewDecoder(limited).Decode(&d); err != nil {
		if limited.N == 0 {
			err = fmt.Errorf("it has more than %d bytes", maxJSON)
		}
		return Log{}, fmt.Errorf("read the log as nccl-tests' JSON: %w", err)
	}
	// A process lists its first device only.
	t := Test{Line: 1, Ranks: len(d.Config.Devices) * d.Config.Threads * d.Config.GPUs, Iters: d.Config.Iterations,
		Programs: 1}
	ranks := map[int]device{}
	for i, d := range d.Config.Devices {
		ranks[i] = device{d.Hostname, d.Product}
	}
	t.Nodes = nodes(ranks, len(ranks))
	t.System = System{GPU: gpus(ranks, len(ranks)), Threads: d.Config.Threads, GPUsPerThread: d.Config.GPUs,
		NCCL: versionText(d.NCCL), Settings: variables(d.Env)}
	if len(d.Args) > 0 {
		if name, _, ok := strings.Cut(path.Base(d.Args[0]), "_perf"); ok && known(name) {
			t.Name = name
		}
	}
	if len(d.Results) > maxRows {
		return Log{}, fmt.Errorf("more than %d rows", maxRows)
	}
	for i, result := range d.Results {
		r := Row{Line: i + 1, Size: result.Size, Count: result.Count, Type: result.Type, Op: result.RedOp}
		err := t.add(&r, result.Root, result.OutOfPlace, result.InPlace)
		if err != nil {
			t.Odd = append(t.Odd, Line{i + 1, err.Error()})
			continue
		}
		t.Rows = append(t.Rows, r)
	}
	if len(t.Rows) == 0 {
		return Log{}, errors.New("the JSON has no whole result of nccl-tests")
	}
	t.joinCycles()
	return Log{Tests: []Test{t}, JSON: true}, nil
}

// add adds the halves of a result to a row.
func (t *Test) add(r *Row, root string, out, in *jsonHalf) (err error) {
	if r.Root, err = strconv.Atoi(strings.TrimSpace(root)); err != nil || r.Size < 0 || r.Count < 0 {
		return fmt.Errorf("size %d, count %d, root %q: not those of a call", r.Size, r.Count, root)
	}
	for _, half := range []*jsonHalf{out, in} {
		if half == nil {
			continue
		}
		h, err := half.half()
		if err != nil {
			return err
		}
		t.CPUTime = t.CPUTime || half.CPUTime != nil
		if half == out {
			r.OutOfPlace = h
		} else {
			r.InPlace = &h
		}
	}
	if out == nil {
		return errors.New("the result has no times out of place")
	}
	return nil
}

func (j *jsonHalf) half() (h Half, err error) {
	us := j.Time
	if us == nil {
		us = j.CPUTime
	}
	if us == nil || !(*us >= 0 && *us <= 1e12) || !(j.AlgBW >= 0 && j.AlgBW < 1e12) ||
		!(j.BusBW >= 0 && j.BusBW < 1e12) {
		return h, errors.New("the result has no time or bandwidth")
	}
	h = Half{Time: time.Duration(*us * float64(time.Microsecond)), AlgBW: j.AlgBW, BusBW: j.BusBW, Wrong: -1}
	if j.Wrong != nil && *j.Wrong >= 0 && *j.Wrong < 1<<62 {
		h.Wrong = int64(*j.Wrong)
	}
	return h, nil
}
