// SPDX-License-Identifier: Apache-2.0

package capture

import _ "embed"

// Dissector is a program in Lua with which Wireshark makes fields of the packets' comments.
//
//go:embed ddlemu.lua
var Dissector string
