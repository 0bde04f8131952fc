// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// The nets through which NCCL sends on a real cluster.
const (
	IBNet       = "ib"           // NCCL's own over InfiniBand and RoCE
	SocketNet   = "socket"       // NCCL's own over TCP
	OFIRDMA     = "ofi-rdma"     // aws-ofi-nccl with its protocol RDMA, which sends over several rails
	OFISendRecv = "ofi-sendrecv" // aws-ofi-nccl with its protocol SENDRECV
	FasTrak     = "fastrak"      // Google's over GPUDirect-TCPXO
	NoNet       = "none"         // no net: the "NIC" is a GPU's NVLinks
)

var nets = []string{IBNet, SocketNet, OFIRDMA, OFISendRecv, FasTrak, NoNet}

// netOfKind is NCCL's own net for each kind of transport.
var netOfKind = map[string]string{TCP: SocketNet, RDMA: IBNet}

// kindOfNet is the only kind of transport over which a net sends. OFISendRecv has libfabric's providers for both.
var kindOfNet = map[string]string{IBNet: RDMA, SocketNet: TCP, OFIRDMA: RDMA, FasTrak: RDMA}

// NCCL is what NCCL is shown of the network: what the net of the real cluster tells it. NCCL decides by that. What the
// network does is in Link and Transport.
type NCCL struct {
	// the net of the real cluster; empty = IBNet with rdma, SocketNet with tcp
	Net     string          `yaml:"net,omitempty"`
	Latency ShownLatency    `yaml:"latency,omitempty"` // of each NIC
	Speed   units.Bandwidth `yaml:"speed,omitempty"`   // of a port whose rate is that of Link; 0 = that rate

	// Variables of NCCL that the net sets, unless they are set already.
	Variables map[string]string `yaml:"variables,omitempty"`

	// Tuner describes a tuner that the net brings and ddlemu does not have; nil = it brings none.
	Tuner *Tuner `yaml:"tuner,omitempty"`
}

// Tuner is a tuner of the real cluster that chooses in place of NCCL.
type Tuner struct {
	Name  string `yaml:"name"`
	Nodes int    `yaml:"nodes"` // the least number of nodes for which it chooses

	// Collectives for which it chooses, by nccl-tests' names; none = all.
	Collectives []string `yaml:"collectives,omitempty,flow"`
}

// ChoosesFor reports whether t chooses for a collective, by nccl-tests' name, between nodes nodes.
func (t *Tuner) ChoosesFor(coll string, nodes int) bool {
	return t != nil && nodes >= t.Nodes && (len(t.Collectives) == 0 || slices.Contains(t.Collectives, coll))
}

// ShownLatency is the latency that a net tells NCCL. The zero value is 0, with which NCCL's own nets say that they do
// not know it.
type ShownLatency struct {
	OfLink bool          // the latency of the longest path and the endpoints' overhead; then Time is 0
	Time   time.Duration // one way
}

// LinkLatency is the text of a ShownLatency that is OfLink.
const LinkLatency = "link"

// ParseShownLatency reads a duration, or LinkLatency.
func ParseShownLatency(text string) (ShownLatency, error) {
	if text == LinkLatency {
		return ShownLatency{OfLink: true}, nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return ShownLatency{}, fmt.Errorf("%q is neither %s nor a duration such as 75us", text, LinkLatency)
	}
	return ShownLatency{Time: d}, nil
}

// String is the text that ParseShownLatency reads.
func (l ShownLatency) String() string {
	if l.OfLink {
		return LinkLatency
	}
	return l.Time.String()
}

// MarshalYAML writes what ParseShownLatency reads.
func (l ShownLatency) MarshalYAML() (any, error) { return l.String(), nil }

// ParseNet reads the name of a net.
func ParseNet(s string) (string, error) { return oneOf(s, nets) }

// NCCLNet is the net of the real cluster.
func (f *Fabric) NCCLNet() string { return cmp.Or(f.NCCL.Net, netOfKind[f.Transport.Kind]) }

// NCCLEnv reads a variable as NCCL finds it on f: the value of getenv, or else the one that the net sets.
func (f *Fabric) NCCLEnv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if text := getenv(name); text != "" {
			return text
		}
		return f.NCCL.Variables[name]
	}
}

// Limits of the variables of NCCL that a file sets.
const (
	maxNCCLVariables = 32
	maxNCCLValue     = 256 // bytes
)

var ncclVariable = regexp.MustCompile(`^NCCL_[A-Z0-9_]{1,59}$`)

// notOfNet are variables by which the plugin and the nodes work. A fabric cannot set them.
var notOfNet = []string{"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_HOSTID", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN",
	"NCCL_CONF_FILE", TopologyEnv}

// validateNCCL checks what NCCL is shown.
func (f *Fabric) validateNCCL() error {
	n := &f.NCCL
	if n.Net != "" && !slices.Contains(nets, n.Net) {
		return Errorf("nccl.net", "%q is not one of %s", n.Net, strings.Join(nets, ", "))
	}
	if kind, ok := kindOfNet[n.Net]; ok && kind != f.Transport.Kind {
		return Errorf("nccl.net", "%s sends with %s, and the transport is %s: give another net, such as %s", n.Net,
			kind, f.Transport.Kind, netOfKind[f.Transport.Kind])
	}
	if n.Latency.OfLink && n.Latency.Time != 0 {
		return Errorf("nccl.latency", "must be %s or a duration", LinkLatency)
	}
	if err := between("nccl.latency", n.Latency.Time, 0, MaxLatency); err != nil {
		return err
	}
	if n.Speed != 0 {
		if err := between("nccl.speed", n.Speed, MinBandwidth, MaxBandwidth); err != nil {
			return err
		}
	}
	if n.Tuner != nil {
		if err := validateTuner(n.Tuner); err != nil {
			return err
		}
	}
	return validateVariables(n.Variables)
}

// tunedCollectives are those for which NCCL asks a tuner.
var tunedCollectives = []string{"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"}

func validateTuner(t *Tuner) error {
	if t.Name == "" || !printable(t.Name) {
		return Errorf("nccl.tuner.name", "must be printable UTF-8, 1 to %d bytes", maxText)
	}
	for i, c := range t.Collectives {
		if !slices.Contains(tunedCollectives, c) {
			return Errorf(fmt.Sprintf("nccl.tuner.collectives[%d]", i), "%q is not one of %s", c,
				strings.Join(tunedCollectives, ", "))
		}
	}
	return between("nccl.tuner.nodes", t.Nodes, 1, MaxNodes)
}

// CheckNCCLValue returns an error if a file cannot give this value to a variable of NCCL.
func CheckNCCLValue(value string) error {
	if value == "" || len(value) > maxNCCLValue ||
		strings.ContainsFunc(value, func(r rune) bool { return r < '!' || r > '~' }) {
		return fmt.Errorf("%q: must be 1 to %d printable ASCII characters without spaces", value, maxNCCLValue)
	}
	return nil
}

func validateVariables(variables map[string]string) error {
	const field = "nccl.variables"
	if len(variables) > maxNCCLVariables {
		return Errorf(field, "has %d variables: at most %d", len(variables), maxNCCLVariables)
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value := variables[name]
		switch {
		case !ncclVariable.MatchString(name):
			return Errorf(field, "%q is not the name of a variable of NCCL, such as NCCL_BUFFSIZE", name)
		case slices.Contains(notOfNet, name):
			return Errorf(field, "%s cannot be set here: ddlemu needs it", name)
		}
		if err := CheckNCCLValue(value); err != nil {
			return Errorf(field+"."+name, "%w", err)
		}
	}
	return nil
}
