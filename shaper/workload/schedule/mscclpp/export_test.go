// SPDX-License-Identifier: Apache-2.0

package mscclpp

import "github.com/ddlemu/ddlemu/shaper/workload/schedule"

// ReadStores is Read for plans with stores, also if all channels are ports.
func ReadStores(data []byte) (*schedule.Schedule, error) {
	p, err := parse(data)
	if err != nil {
		return nil, err
	}
	return p.read()
}
