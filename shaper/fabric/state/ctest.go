// SPDX-License-Identifier: Apache-2.0

package state

// #include "layout.h"
import "C"

import (
	"reflect"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// layouts are the structs of the file that C reads too, each with its twin in layout.h. A
// test compares them; test files cannot use cgo.
func layouts() [][2]reflect.Type {
	return [][2]reflect.Type{
		{reflect.TypeFor[header](), reflect.TypeFor[C.struct_ddlemu_header]()},
		{reflect.TypeFor[gpuEntry](), reflect.TypeFor[C.struct_ddlemu_gpu]()},
		{reflect.TypeFor[nodeTimeEntry](), reflect.TypeFor[C.struct_ddlemu_node_time]()},
		{reflect.TypeFor[node.SendCost](), reflect.TypeFor[C.struct_ddlemu_send_cost]()},
		{reflect.TypeFor[node.GPUGroup](), reflect.TypeFor[C.struct_ddlemu_gpu_group]()},
		{reflect.TypeFor[link.PlannedChange](), reflect.TypeFor[C.struct_ddlemu_planned_change]()},
		{reflect.TypeFor[Class](), reflect.TypeFor[C.struct_ddlemu_class]()},
		{reflect.TypeFor[Pauses](), reflect.TypeFor[C.struct_ddlemu_pauses]()},
		{reflect.TypeFor[LinkStats](), reflect.TypeFor[C.struct_ddlemu_link_stats]()},
	}
}
