// SPDX-License-Identifier: Apache-2.0

package expect

import "fmt"

func (c *call) p2pPlan() (*plan, error) {
	return nil, fmt.Errorf("the model does not know this schedule")
}
