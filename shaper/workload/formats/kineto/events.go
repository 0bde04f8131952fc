// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// event is one element of traceEvents.
type event struct {
	Phase string          `json:"ph"`
	Cat   string          `json:"cat"`
	Name  string          `json:"name"`
	Start micros          `json:"ts"`
	Dur   micros          `json:"dur"`
	TID   loose           `json:"tid"`
	Args  json.RawMessage `json:"args"`
}

// args are the arguments of events about communication.
type args struct {
	External    loose `json:"External id"`
	Function    loose `json:"Record function id"`
	Correlation loose `json:"correlation"`
	Stream      loose `json:"stream"`

	Collective loose `json:"Collective name"`
	DType      loose `json:"dtype"`
	In         loose `json:"In msg nelems"`
	Out        loose `json:"Out msg nelems"`
	InSplit    loose `json:"In split size"`
	OutSplit   loose `json:"Out split size"`
	GroupSize  loose `json:"Group size"`
	GroupName  loose `json:"Process Group Name"`
	GroupID    loose `json:"Process Group ID"`
	GroupDesc  loose `json:"Process Group Description"`
	GroupRanks loose `json:"Process Group Ranks"`
	RankStart  loose `json:"Global rank start"`
	RankStride loose `json:"Global rank stride"`
	Src        loose `json:"Src Rank"`
	Dst        loose `json:"Dst Rank"`

	Dims     json.RawMessage `json:"Input Dims"`
	Types    json.RawMessage `json:"Input type"`
	Concrete json.RawMessage `json:"Concrete Inputs"`

	SyncStream loose `json:"wait_on_stream"`
	SyncRecord loose `json:"wait_on_cuda_event_record_corr_id"`
}

// loose is a value that is a text in some versions and a number in others.
type loose string

func (l *loose) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	*l = loose(text)
	return nil
}

// number is the value as a number, missing if it is none.
func (l loose) number(missing int64) int64 {
	if n, err := strconv.ParseInt(string(l), 10, 64); err == nil {
		return n
	}
	return missing
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
