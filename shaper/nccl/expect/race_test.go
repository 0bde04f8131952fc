// SPDX-License-Identifier: Apache-2.0

//go:build race

package expect

// underRace: the race detector makes the arithmetic more than ten times slower, and this package has no concurrency.
const underRace = true
