// SPDX-License-Identifier: Apache-2.0

package simai

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
)

// Settings are what a .conf of the simulator says about links. The zero value stands for no file.
type Settings struct {
	Payload int     // bytes of a packet; 0 = the file does not say
	Loss    float64 // of the links for which the topology has none
	CCMode  string  // congestion control
	Others  []string
}

// headers are the bytes that the simulator adds to the payload of a packet: PPP 14, IP 20, UDP 8, sequence number and
// priority 6, and the telemetry of some kinds of congestion control (CustomHeader::GetStaticWholeHeaderSize,
// IntHeader).
func headers(ccMode string) int {
	const always = 14 + 20 + 8 + 6
	switch ccMode {
	case "3": // HPCC
		return always + 42
	case "7": // TIMELY
		return always + 8
	case "10": // HPCC-PINT
		return always + 2
	}
	return always
}

// effects are settings that change how fast the simulated network is and that a fabric has otherwise.
var effects = []string{"CC_MODE", "HAS_WIN", "BUFFER_SIZE", "KMAX_MAP", "KMIN_MAP", "PMAX_MAP", "ENABLE_QCN", "RATE_AI",
	"L2_CHUNK_SIZE", "NIC_TOTAL_PAUSE_TIME", "LINK_DOWN"}

// LooksLikeSettings reports whether a line begins a .conf.
func LooksLikeSettings(line string) bool {
	key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
	return ok && value != "" && key == strings.ToUpper(key) && strings.Contains(key, "_") &&
		strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// ReadSettings reads a .conf: lines of a key and its values.
func ReadSettings(text string) (Settings, error) {
	var s Settings
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		var err error
		switch f[0] {
		case "PACKET_PAYLOAD_SIZE":
			s.Payload, err = strconv.Atoi(f[1])
			if err == nil && (s.Payload < configs.MinMTU || s.Payload > configs.MaxMTU) {
				err = fmt.Errorf("%d is out of range: a fabric's packets have %d to %d bytes", s.Payload,
					configs.MinMTU, configs.MaxMTU)
			}
		case "ERROR_RATE_PER_LINK":
			s.Loss, err = parseProbability(f[1])
		default:
			if f[0] == "CC_MODE" {
				s.CCMode = f[1]
			}
			for _, e := range effects {
				if f[0] == e && !(e == "LINK_DOWN" && strings.Join(f[1:], "") == "000") {
					s.Others = append(s.Others, f[0]+" "+f[1])
				}
			}
		}
		if err != nil {
			return s, fmt.Errorf("line %d: %s: %w", i+1, f[0], err)
		}
	}
	return s, nil
}

// apply sets the packets of the links.
func (s Settings) apply(out *found.Fabric) {
	l := &out.Config.Link
	switch {
	case s.Payload > 0:
		l.MTU, l.Header, l.Framing = s.Payload, 0, headers(s.CCMode)
		out.Say("packets of %d bytes (PACKET_PAYLOAD_SIZE) and %d bytes of headers", l.MTU, l.Framing)
	case l.Framing == 0 && l.Header == 0:
		out.Note(
			"the size of packets is in the simulator's .conf: packets are of %d bytes without headers, so that "+
				"payload has the whole rate", l.MTU)
	}
	if len(s.Others) > 0 {
		out.Note("of the .conf these have no counterpart: %s", strings.Join(s.Others, ", "))
	} else {
		out.Note("congestion control and switch buffers are in the simulator's .conf: here the queue is %v", l.Queue)
	}
}
