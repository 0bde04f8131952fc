// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// InForceOfShared says what a fabric that is up has otherwise than the built-in profile of its name, if there is one,
// and how many of its links ddlemu shape has changed since; "" if nothing. fab has the links in force. A fabric of a
// file that has the name of a profile is compared with the profile.
func InForceOfShared(fab *fabric.Fabric) (string, error) {
	var all []string
	if base, err := configs.Profile(fab.Config.Name); err == nil {
		if text := fab.Config.InForce(base); text != "" {
			all = append(all, text)
		}
	}
	begun, err := fabric.New(&fab.Config)
	if err != nil {
		return "", err
	}
	changed := 0
	for i, h := range fab.Hops {
		if (h.Kind == link.Link || h.Kind == link.Trunk) && h.Spec != begun.Hops[i].Spec {
			changed++
		}
	}
	if changed > 0 {
		all = append(all, units.Count(changed, "link")+" changed by ddlemu shape (see `ddlemu status`)")
	}
	return strings.Join(all, "; "), nil
}
