// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/ddlemu/ddlemu/configs"
)

func autoScale(ctx context.Context, c *configs.Fabric, ranks int) (int, string, error) {
	return 64, "(fixed for now)", nil
}
