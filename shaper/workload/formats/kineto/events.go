// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// event is one element of traceEvents.
type event struct {
	Phase string          `json:"ph"`
	Cat   string          `json:"cat"`
	Name  string          `json:"name"`
	Start micros          `json:"ts"`
	Dur   micros          `json:"dur"`
	TID   input.Text      `json:"tid"`
	Args  json.RawMessage `json:"args"`
}

// args are the arguments of events about communication.
type args struct {
	External    input.Text `json:"External id"`
	Function    input.Text `json:"Record function id"`
	Correlation input.Text `json:"correlation"`
	Stream      input.Text `json:"stream"`

	Collective input.Text `json:"Collective name"`
	DType      input.Text `json:"dtype"`
	In         input.Text `json:"In msg nelems"`
	Out        input.Text `json:"Out msg nelems"`
	InSplit    input.Text `json:"In split size"`
	OutSplit   input.Text `json:"Out split size"`
	GroupSize  input.Text `json:"Group size"`
	GroupName  input.Text `json:"Process Group Name"`
	GroupID    input.Text `json:"Process Group ID"`
	GroupDesc  input.Text `json:"Process Group Description"`
	GroupRanks input.Text `json:"Process Group Ranks"`
	RankStart  input.Text `json:"Global rank start"`
	RankStride input.Text `json:"Global rank stride"`
	Src        input.Text `json:"Src Rank"`
	Dst        input.Text `json:"Dst Rank"`

	Dims     json.RawMessage `json:"Input Dims"`
	Types    json.RawMessage `json:"Input type"`
	Concrete json.RawMessage `json:"Concrete Inputs"`

	SyncStream input.Text `json:"wait_on_stream"`
	SyncRecord input.Text `json:"wait_on_cuda_event_record_corr_id"`
}

// micros is a time in ns that a trace has in us, with a fraction or without. It is noTime if it is no number.
type micros int64

const noTime micros = math.MinInt64

func (m *micros) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	whole, fraction, _ := strings.Cut(text, ".")
	us, err := strconv.ParseInt(whole, 10, 64)
	ns, fractionErr := strconv.ParseUint((fraction + "000")[:3], 10, 64)
	if err == nil && fractionErr == nil && !strings.ContainsAny(fraction, "eE") && us >= 0 && us < math.MaxInt64/2000 {
		*m = micros(us*1000 + int64(ns))
		return nil
	}
	*m = noTime
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < math.MaxInt64/2000 {
		*m = micros(math.Round(f * 1000))
	}
	return nil
}
