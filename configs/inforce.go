// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"strings"
)

// InForce says what the links and the transport of a fabric have otherwise than a base, with the base's values in
// brackets: "ndr400 with bandwidth 1Gbps (400Gbps), loss 10% (none)". It is "" if they have nothing otherwise. Links
// that the fabric lists one by one are not compared.
func (f *Fabric) InForce(base *Fabric) string {
	var changes []string
	add := func(what, now, was string) {
		if now != was {
			changes = append(changes, fmt.Sprintf("%s %s (%s)", what, now, was))
		}
	}
	for i := range linkParams {
		p := &linkParams[i]
		if p.Key == "framing" && f.TimedNodes {
			continue // SetNICRate has set it, and no flag does
		}
		add(p.Label, p.Text(&f.Link), p.Text(&base.Link))
	}
	add("transport", f.Transport.Kind, base.Transport.Kind)
	add("congestion control", cmp.Or(f.Transport.Congestion, NoCongestion),
		cmp.Or(base.Transport.Congestion, NoCongestion))
	if len(changes) == 0 {
		return ""
	}
	return base.Name + " with " + strings.Join(changes, ", ")
}
