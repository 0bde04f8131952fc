// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// event is a line of an export as JSON. The first line is the list of texts; others may have data too.
type event struct {
	Data    []json.RawMessage
	Type    int
	NVTX    *nvtxEvent  `json:"NvtxEvent"`
	CUDA    *cudaEvent  `json:"CudaEvent"`
	Process *traceEvent `json:"TraceProcessEvent"`
}

// nvtxEvent is a range of NVTX. Its name is Text, or the text with the number TextId.
type nvtxEvent struct {
	Start   input.Integer `json:"Timestamp"`
	End     input.Integer `json:"EndTimestamp"`
	Text    string
	TextID  *input.Integer `json:"TextId"`
	Thread  input.Integer  `json:"GlobalTid"`
	Payload struct {
		BinaryData []struct {
			SchemaID input.Integer `json:"SchemaId"`
			Data     []byte
		}
		JSON string `json:"Json"`
	}
}

// cudaEvent is what happened on a GPU: a kernel, or a synchronization.
type cudaEvent struct {
	Start       input.Integer `json:"startNs"`
	End         input.Integer `json:"endNs"`
	Correlation input.Integer `json:"correlationId"`
	Stream      input.Integer `json:"streamId"`
	Process     input.Integer `json:"globalPid"`
	Kernel      *struct {
		Name  input.Integer `json:"demangledName"`
		Short input.Integer `json:"shortName"`
	} `json:"kernel"`
	Sync *struct {
		Type string `json:"syncType"`
	} `json:"sync"`
}

// traceEvent is a call of CUDA.
type traceEvent struct {
	Start       input.Integer `json:"startNs"`
	Correlation input.Integer `json:"correlationId"`
	Thread      input.Integer `json:"globalTid"`
	Name        input.Integer `json:"name"`
}

// jsonReader reads an export as JSON.
type jsonReader struct {
	*recording
	names       map[int64]string // texts that name a function or a kernel of NCCL, by number
	launchNames map[int64]bool   // numbers of texts that name calls of CUDA that launch kernels
}

// readJSON reads an export as JSON: one event a line.
func readJSON(f input.File, limit *input.Limit) (*recording, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r := jsonReader{newRecording(f.Name, limit), map[int64]string{}, map[int64]bool{}}
	j := in.JSON()
	if err := r.readTexts(j); err != nil {
		return nil, err
	}
	for j.More() {
		var e event
		err := j.Decode(&e)
		if input.IsWrongType(err) {
			r.foreign++
			continue
		}
		if err != nil {
			return nil, j.Wrap(err)
		}
		if err := r.add(&e); err != nil {
			return nil, j.Wrap(err)
		}
	}
	if err := j.AtEnd(); err != nil {
		return nil, err
	}
	r.keepLaunches()
	return r.recording, nil
}

// readTexts reads the first line: the list of texts that events name by their place in it.
func (r *jsonReader) readTexts(j *input.JSON) error {
	n := int64(0)
	return j.Object(func(key string) error {
		if key != "data" {
			return j.Skip()
		}
		return j.Array(func() error {
			var raw json.RawMessage
			if err := j.Decode(&raw); err != nil {
				return err
			}
			var text string
			if bytes.HasPrefix(raw, []byte(`"nccl`)) && json.Unmarshal(raw, &text) == nil {
				r.names[n] = text
			}
			if bytes.HasPrefix(raw, []byte(`"cu`)) && bytes.Contains(raw, []byte("Launch")) {
				r.launchNames[n] = true
			}
			n++
			return nil
		})
	})
}

// add keeps the needed fields of an event.
func (r *jsonReader) add(e *event) error {
	switch {
	case e.NVTX != nil && (e.Type == 59 || e.Type == 0):
		return r.readRange(e.NVTX)
	case e.CUDA != nil && e.CUDA.Kernel != nil:
		c := e.CUDA
		k := kernel{start: int64(c.Start), end: int64(c.End), process: process(c.Process), stream: int64(c.Stream),
			correlation: int64(c.Correlation)}
		return r.addKernel(k, r.names[int64(c.Kernel.Name)], r.names[int64(c.Kernel.Short)])
	case e.CUDA != nil && e.CUDA.Sync != nil && strings.HasSuffix(e.CUDA.Sync.Type, "STREAM_WAIT_EVENT"):
		c := e.CUDA
		return r.addWait(process(c.Process), span{int64(c.Start), int64(c.End), int32(c.Stream), int64(c.Correlation)})
	case e.Process != nil && r.launchNames[int64(e.Process.Name)]:
		l := launch{int64(e.Process.Start), thread(e.Process.Thread)}
		return r.addLaunch(launchKey{l.thread.process(), int64(e.Process.Correlation)}, l)
	}
	return nil
}

func (r *jsonReader) readRange(n *nvtxEvent) error {
	e := rangeEvent{start: int64(n.Start), end: max(int64(n.End), int64(n.Start)), thread: thread(n.Thread),
		function: n.Text}
	if n.TextID != nil {
		e.function = r.names[int64(*n.TextID)]
	}
	if !isRange(e.function) {
		return nil
	}
	ok := true
	switch {
	case len(n.Payload.BinaryData) == 1:
		data := n.Payload.BinaryData[0].Data
		e.payload, ok = layoutOf(e.function, len(data)).read(data)
	case len(n.Payload.BinaryData) > 1:
		ok = false
	case n.Payload.JSON != "":
		e.payload, ok = readText(n.Payload.JSON)
	}
	if !ok {
		r.broken++
	}
	return r.addRange(e)
}

// keepLaunches drops the calls of CUDA that launched no kernel of NCCL. They may come before the kernels in the file.
func (r *jsonReader) keepLaunches() {
	wanted := r.wantedLaunches()
	for key := range r.launches {
		if !wanted[key] {
			delete(r.launches, key)
		}
	}
}
