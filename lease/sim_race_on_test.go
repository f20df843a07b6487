//go:build race

package lease_test

// simUnderRace says that the race detector watches, which makes every step some ten times dearer.
const simUnderRace = true
