//go:build unix

package generator_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// BenchmarkSaturated requests all IDs of Default from one goroutine for two seconds. It reports the
// share of the IDs that it got and the share of one core that this took.
func BenchmarkSaturated(b *testing.B) {
	const span = 2 * time.Second
	l := generator.Default()
	g := newBenchGenerator(b, l)
	for b.Loop() {
		cpu, began, count := processTime(b), time.Now(), 0
		for time.Since(began) < span {
			for range 64 {
				if _, err := g.Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			count += 64
		}
		elapsed := time.Since(began)
		possible := float64(l.MaxSequence()+1) * float64(elapsed) / float64(l.Tick)
		b.ReportMetric(100*float64(count)/possible, "%capacity")
		b.ReportMetric(100*float64(processTime(b)-cpu)/float64(elapsed), "%core")
	}
}

// processTime is the processor time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
