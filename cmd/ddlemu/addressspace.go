// SPDX-License-Identifier: Apache-2.0

package main

import "C" // addressspace.c runs before Go's runtime starts
