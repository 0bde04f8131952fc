// SPDX-License-Identifier: Apache-2.0

package cli

import "github.com/ddlemu/ddlemu/configs"

// InForce says what a fabric for one job, loaded from src, has otherwise than the profile or file; "" if nothing.
func InForce(c *configs.Fabric, src configs.Source) (string, error) {
	base, err := src.Base()
	if err != nil {
		return "", err
	}
	return c.InForce(base), nil
}

// InForceOfShared says what a fabric that is up was brought up with otherwise than the built-in profile of its name; ""
// if nothing, or if there is none. What ddlemu shape has changed since is not in it.
func InForceOfShared(c *configs.Fabric) string {
	base, err := configs.Profile(c.Name)
	if err != nil {
		return ""
	}
	return c.InForce(base)
}
