// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/mscclpp"
)

// document has the keys that distinguish the formats.
type document struct {
	Type   string           `json:"msccl_type"` // SCCL
	Older  string           `json:"sccl_type"`  // TACCL, and SCCL before
	Flows  *json.RawMessage `json:"7-Flows"`    // TE-CCL
	Flows6 *json.RawMessage `json:"6-Flows"`    // TE-CCL before
	GPUs   *json.RawMessage `json:"gpus"`       // MSCCL++
}

func readJSON(data []byte) (*schedule.Schedule, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	kind := cmp.Or(d.Type, d.Older)
	switch {
	case kind == "algorithm":
		return readSCCL(data)
	case kind != "":
		return nil, fmt.Errorf("msccl_type %q: must be algorithm", kind)
	case d.Flows != nil, d.Flows6 != nil:
		return readTECCL(data)
	case d.GPUs != nil:
		s, err := mscclpp.Read(data)
		if err != nil {
			return nil, fmt.Errorf("an MSCCL++ plan: %w", err)
		}
		return s, nil
	}
	return nil, errors.New("JSON without msccl_type (SCCL, TACCL), 7-Flows (TE-CCL) or gpus (MSCCL++): not a schedule")
}
