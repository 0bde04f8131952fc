// SPDX-License-Identifier: Apache-2.0

//go:build race

package expect

// underRace: the detector makes the arithmetic more than ten times slower, and
// there is no concurrency here for it to find.
const underRace = true
