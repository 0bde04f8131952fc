// SPDX-License-Identifier: Apache-2.0

package main

/*
#include "glue.h"
*/
import "C"

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
)

// noteVariables writes to NCCL's log which variables of this process have no effect. `ddlemu run` prints that, but a job
// may run without it.
func (m *member) noteVariables() {
	s := variables.Situation{Soft: busID(false) == "", Timeless: m.file.Virtual(), Kernel: m.onKernel}
	if v := int(C.net_nccl_version()); v > 0 {
		s.NCCL = fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
	}
	if !m.adHoc && getenv(jobEnv) == "" {
		s.Fabric = m.file.Name()
	}
	for _, note := range variables.Notes(s, variables.FromEnv(environ())) {
		logLine(C.NET_LOG_INFO, note)
	}
}
