// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

// GPUTime is what a node with GPUs of a kind costs NCCL: its kernels, and the links between the GPUs of the node.
// docs/node-time.md says what the figures mean and how they were found.
type GPUTime struct {
	Kernel time.Duration `yaml:"kernel"` // from the start of a kernel until its channels begin
	// Channels is what a kernel of several channels takes more, for each doubling of the GPUs of a node or NVLink
	// domain: tables of 2, 4 and 8 A100, B200, GB200, H100 and H200 have it.
	Channels time.Duration `yaml:"channels,omitempty"`
	Call     time.Duration `yaml:"call"` // of the host's thread for a call

	Links LinkTime `yaml:"links,flow"` // of each GPU, all its links to GPUs of its node together, in one direction

	Net NetTime `yaml:"net,omitempty,flow"` // what the rank's proxy and its NIC add to the links between nodes

	LL       ActionTime  `yaml:"ll,flow"`
	LL128    ActionTime  `yaml:"ll128,flow"`
	Simple   ActionTime  `yaml:"simple,flow"`
	Send     ActionTime  `yaml:"send,flow"`                // sends and receives by Simple
	SendNet  SendNetTime `yaml:"send_net,omitempty,flow"`  // those between nodes; as Send if not given
	NVLSCopy ActionTime  `yaml:"nvls_copy,omitempty,flow"` // between a rank's data and its buffers for NVLS
	NVLSHead ActionTime  `yaml:"nvls_head,omitempty,flow"` // the reduction and the broadcast

	// NVLSTreeCopy is NVLSCopy where a node has a parent in the tree of NVLSTree; as NVLSCopy if not given.
	NVLSTreeCopy ActionTime `yaml:"nvls_tree_copy,omitempty,flow"`

	// FittedTo are the rows of tables that these figures were fitted to.
	FittedTo []FittedRows `yaml:"fitted_to,omitempty"`
	// EstimatedFrom are the kinds whose figures these were taken from, if no table of this kind is known: the geometric
	// mean of theirs, with rates of links in proportion to the raw rate.
	EstimatedFrom []string `yaml:"estimated_from,omitempty,flow"`
}

// LinkTime is the rate and the latency of links. Messages over PCI Express to a GPU of another PCI switch, or of
// another CPU, also share what leaves and enters the switch or the CPU.
type LinkTime struct {
	Rate    units.Bandwidth `yaml:"rate"` // of payload
	Latency time.Duration   `yaml:"latency"`

	Switch units.Bandwidth `yaml:"switch,omitempty"` // between PCI switches; 0: as the GPUs' links
	CPU    units.Bandwidth `yaml:"cpu,omitempty"`    // between CPUs; 0: as between switches
}

// NetTime is what the ends of a link between nodes cost for each message, besides the link.
type NetTime struct {
	PerMessage time.Duration `yaml:"per_message"` // of the proxy at each end, one message after the other
	Latency    time.Duration `yaml:"latency"`     // of all that messages pass at the same time: NICs, PCI Express, polling
}

// NICTime is what NICs of a kind cost GPUs, for fabrics with the time of nodes. Its NetTime, if it is not zero,
// replaces the value of the kind of GPU and the PerMessage of the fabric's hosts.
type NICTime struct {
	NetTime `yaml:",inline"`
	Rate    units.Bandwidth `yaml:"rate,omitempty"` // of payload, of a port; 0: the link's rate
	// A message of more than Eager bytes is sent later by Rendezvous: the NICs first agree on where it goes.
	Eager      units.Size    `yaml:"eager,omitempty"`
	Rendezvous time.Duration `yaml:"rendezvous,omitempty"`
}

// ActionTime is what an action of a kernel costs on one channel, by protocol.
type ActionTime struct {
	Step time.Duration   `yaml:"step"` // beside its bytes
	Rate units.Bandwidth `yaml:"rate"` // of its bytes, with the flags of LL and LL128
	// Occupies is how many bytes of the links a byte of a message occupies; 0 = 1.
	Occupies float64 `yaml:"occupies,omitempty"`
}

// SendNetTime is what an action of a send or receive between nodes costs.
type SendNetTime struct {
	ActionTime `yaml:",inline"`
	PerChannel time.Duration `yaml:"per_channel,omitempty"` // more for each channel that NCCL divides the message over
	Start      time.Duration `yaml:"start,omitempty"`       // more for the first action of a send
}

// maxOccupies bounds ActionTime.Occupies.
const maxOccupies = 8

func (d *decoder) gpuTime(dst **GPUTime) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		t := &GPUTime{}
		*dst = t
		return d.mapping(path, n, []field{
			{"kernel", scalar(d, &t.Kernel, ParseDuration)},
			{"channels", scalar(d, &t.Channels, ParseDuration)},
			{"call", scalar(d, &t.Call, ParseDuration)},
			{"links", d.section([]field{
				{"rate", scalar(d, &t.Links.Rate, units.ParseBandwidth)},
				{"latency", scalar(d, &t.Links.Latency, ParseDuration)},
				{"switch", scalar(d, &t.Links.Switch, units.ParseBandwidth)},
				{"cpu", scalar(d, &t.Links.CPU, units.ParseBandwidth)},
			})},
			{"net", d.section(d.netTime(&t.Net))},
			{"ll", d.actionTime(&t.LL)},
			{"ll128", d.actionTime(&t.LL128)},
			{"simple", d.actionTime(&t.Simple)},
			{"send", d.actionTime(&t.Send)},
			{"send_net", d.sendNetTime(&t.SendNet)},
			{"nvls_copy", d.actionTime(&t.NVLSCopy)},
			{"nvls_head", d.actionTime(&t.NVLSHead)},
			{"nvls_tree_copy", d.actionTime(&t.NVLSTreeCopy)},
			{"fitted_to", values(d, &t.FittedTo, ParseFittedRows)},
			{"estimated_from", values(d, &t.EstimatedFrom, kindName)},
		})
	}
}

func (d *decoder) netTime(t *NetTime) []field {
	return []field{
		{"per_message", scalar(d, &t.PerMessage, ParseDuration)},
		{"latency", scalar(d, &t.Latency, ParseDuration)},
	}
}

// nicTime reads what NICs of a kind cost GPUs.
func (d *decoder) nicTime(dst **NICTime) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		t := &NICTime{}
		*dst = t
		return d.mapping(path, n, append(d.netTime(&t.NetTime),
			field{"rate", scalar(d, &t.Rate, units.ParseBandwidth)},
			field{"eager", scalar(d, &t.Eager, units.ParseSize)},
			field{"rendezvous", scalar(d, &t.Rendezvous, ParseDuration)}))
	}
}

func (d *decoder) actionTime(a *ActionTime) func(string, *yaml.Node) error {
	return d.section(d.actionFields(a))
}

func (d *decoder) sendNetTime(t *SendNetTime) func(string, *yaml.Node) error {
	return d.section(append(d.actionFields(&t.ActionTime),
		field{"per_channel", scalar(d, &t.PerChannel, ParseDuration)}, field{"start", scalar(d, &t.Start, ParseDuration)}))
}

func (d *decoder) actionFields(a *ActionTime) []field {
	return []field{
		{"step", scalar(d, &a.Step, ParseDuration)},
		{"rate", scalar(d, &a.Rate, units.ParseBandwidth)},
		{"occupies", scalar(d, &a.Occupies, func(s string) (float64, error) {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || !(x >= 1 && x <= maxOccupies) {
				return 0, fmt.Errorf("%q: must be a number from 1 to %d", s, maxOccupies)
			}
			return x, nil
		})},
	}
}

// kindName reads the name of a kind of GPU that ships with ddlemu.
func kindName(s string) (string, error) {
	if !slices.Contains(GPUNames(), s) {
		return "", Unknown("kind of GPU", s, GPUNames())
	}
	return s, nil
}

// MayUseNVLS says whether NCCL may choose NVLS on these GPUs, if their NVLinks are connected like this.
func (g *GPU) MayUseNVLS(connection string) bool {
	return connection == SwitchedNVLink && g.Capability >= nvlsCapability
}

// validate checks t, which may be nil. nvls says that NCCL may choose NVLS on these GPUs.
func (t *GPUTime) validate(nvls bool) error {
	if t == nil {
		return nil
	}
	if nvls {
		if err := cmp.Or(within("nvls_copy", t.NVLSCopy.validate()), within("nvls_head", t.NVLSHead.validate())); err != nil {
			return err
		}
	}
	if t.NVLSTreeCopy != (ActionTime{}) {
		if err := within("nvls_tree_copy", t.NVLSTreeCopy.validate()); err != nil {
			return err
		}
	}
	return cmp.Or(
		someTime("kernel", t.Kernel), between("channels", t.Channels, 0, MaxLatency), someTime("call", t.Call),
		needs("links.rate", t.Links.Rate > 0), someTime("links.latency", t.Links.Latency),
		within("net", t.Net.validate()),
		within("ll", t.LL.validate()), within("ll128", t.LL128.validate()),
		within("simple", t.Simple.validate()), within("send", t.Send.validate()), within("send_net", t.SendNet.validate()),
	)
}

// SetNICRate gives the links the rate of f's NICTime, if it has one: bytes of the line that are not payload, beside
// each packet, make the difference.
func (f *Fabric) SetNICRate() {
	if l := &f.Link; f.NICTime != nil && f.NICTime.Rate > 0 && l.Bandwidth > f.NICTime.Rate {
		payload := float64(l.MTU - l.Header)
		line := payload * float64(l.Bandwidth) / float64(f.NICTime.Rate)
		l.Framing = max(0, int(math.Round(line))-l.MTU)
	}
}

// validate checks t, which may be nil.
func (t *NICTime) validate() error {
	if t == nil {
		return nil
	}
	return cmp.Or(t.NetTime.validate(), at("rate", inRate(t.Rate)), between("eager", t.Eager, 0, MaxBuffer),
		between("rendezvous", t.Rendezvous, 0, MaxLatency))
}

func (t *NetTime) validate() error {
	return cmp.Or(between("per_message", t.PerMessage, 0, MaxLatency), between("latency", t.Latency, 0, MaxLatency))
}

// validate checks t, which may be zero.
func (t *SendNetTime) validate() error {
	if *t == (SendNetTime{}) {
		return nil
	}
	return cmp.Or(t.ActionTime.validate(), between("per_channel", t.PerChannel, 0, MaxLatency),
		between("start", t.Start, 0, MaxLatency))
}

func (a *ActionTime) validate() error {
	return cmp.Or(someTime("step", a.Step), needs("rate", a.Rate > 0))
}

// someTime is an error unless a time of a kind of GPU is given and at most MaxLatency.
func someTime(field string, d time.Duration) error {
	return cmp.Or(needs(field, d > 0), between(field, d, 0, MaxLatency))
}

// needs is an error unless a field of a kind of GPU is above 0.
func needs(field string, above bool) error {
	if above {
		return nil
	}
	return Errorf(field, "must be given, and above 0")
}
