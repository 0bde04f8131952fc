// SPDX-License-Identifier: Apache-2.0

package variables

// Class says what a variable does where NCCL runs.
type Class string

// Classes of NCCL's variables.
const (
	// Used is used as on a cluster. Where it changes what NCCL decides, expected times follow, because they are
	// calculated from NCCL's decisions.
	Used Class = "used"
	// Modelled is used, and changes messages in a way that NCCL's log does not tell: expected times are calculated
	// from the variable. If the model does not know what a value does, the row has no expected time, and the reason
	// names the variable.
	Modelled Class = "modelled"
	// Topology is NCCL_TOPO_FILE, about which the plugin decides, see docs/decisions.md.
	Topology Class = "topology"
	// Debug changes what NCCL logs or writes to files.
	Debug Class = "debug"
	// Log changes NCCL's log, which there is only with NCCL_DEBUG.
	Log Class = "log"
	// Host changes what the host does: threads, memory, launches, and sockets by which ranks find each other. On a
	// virtual clock, and for the model, that takes no time.
	Host Class = "host"
	// Node changes how data moves within a node. On a virtual clock, and for the model, that takes no time.
	Node Class = "node"
	// IB is for NET/IB, which the plugin replaces.
	IB Class = "ib"
	// Socket is for NET/Socket, which the plugin replaces.
	Socket Class = "socket"
	// Plugin is for what the plugin does not have.
	Plugin Class = "plugin"
	// CUDA is for what the software CUDA does not have. On a real GPU it is used.
	CUDA Class = "cuda"
	// GDR is about NICs that reach GPU memory. The plugin's NICs reach only the memory of the software CUDA.
	GDR Class = "gdr"
	// Set is set by ddlemu to the value in Reason.
	Set Class = "set"
	// Ranks is used in a program of the user. In its own ranks ddlemu sets it.
	Ranks Class = "ranks"
	// Off is for what ddlemu switches off.
	Off Class = "off"
	// Symbol is a text of the library that is no variable.
	Symbol Class = "symbol"
	// Other is a variable of another program, which is in Reason.
	Other Class = "other"
)

// A variable of class Other that a package or a build has, which asks nothing of NCCL.
const ofBuilds = "a build"

// why says why a variable has no effect, "" if it has one or asks for nothing.
func (v *Variable) why(s *Situation, debug bool) string {
	switch v.Class {
	case Log:
		if !debug {
			return "NCCL writes no log without NCCL_DEBUG"
		}
	case Host:
		if s.Timeless {
			return "it changes only what the host does, which takes no time here"
		}
	case Node:
		if s.Timeless {
			return "it changes how data moves within a node, which takes no time here"
		}
	case IB:
		return "it is for NCCL's NET/IB, and NCCL uses the plugin instead"
	case Socket:
		return "it is for NCCL's NET/Socket, and NCCL uses the plugin instead"
	case Ranks:
		if s.OwnRanks {
			return "ddlemu sets it in its own ranks"
		}
	case Plugin, Off:
		return v.Reason
	case CUDA:
		if s.Soft {
			return v.Reason
		}
	case GDR:
		if !s.Soft {
			return "the plugin's NICs reach no memory of a real GPU"
		}
	case Other:
		if s.OwnRanks && v.Reason != ofBuilds {
			return "it is for " + v.Reason + ", which this command does not run"
		}
	}
	return ""
}
