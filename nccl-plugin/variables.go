// SPDX-License-Identifier: Apache-2.0

package main

/*
#include "glue.h"
*/
import "C"

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
)

// noteVariables writes to NCCL's log which variables of this process have no effect. `ddlemu run` prints that, but a
// job may run without it.
func (m *member) noteVariables() {
	s := variables.Situation{Soft: busID(false) == "", Timeless: m.file.Virtual(), Kernel: m.onKernel}
	if v := int(C.net_nccl_version()); v > 0 {
		s.NCCL = nccl.VersionText(v)
	}
	if !m.adHoc && getenv(jobEnv) == "" {
		s.Fabric = m.file.Name()
	}
	set := slices.DeleteFunc(variables.FromEnv(environ()), func(v variables.Setting) bool {
		return v.Name == "NCCL_NET_PLUGIN_REF_COUNT" && v.Value == "1" // hostid.c sets it
	})
	for _, note := range variables.Notes(s, set) {
		logLine(C.NET_LOG_INFO, note)
	}
}
