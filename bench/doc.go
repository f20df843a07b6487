// Bench compares the generator with other libraries for IDs. Every measurement visits all libraries in
// turn, round after round in one run, so that a slow moment of the machine meets all of them. It also
// measures what the machine can do at best: a reading of the clock, an atomic addition, a mutex.
//
//	go run . -out results            # about four minutes; writes raw.json, tables.md and plots
//	go run . -rounds 3 -quick        # a look, without files
//	go run . -out results -stepped   # sets the clock only, and keeps what else is in raw.json
//
// The figures that the documents show are in the folder results, with the machine and the versions that
// they come from. Compare ratios, not nanoseconds: these depend on the machine.
package main
