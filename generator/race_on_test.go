//go:build race

package generator_test

// raceEnabled says that the race detector watches, which makes every ID some ten times dearer.
const raceEnabled = true
