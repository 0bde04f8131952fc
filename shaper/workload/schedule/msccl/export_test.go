// SPDX-License-Identifier: Apache-2.0

package msccl

// ReadUpTo is Read with another limit of the file.
var ReadUpTo = readUpTo
