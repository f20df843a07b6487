package generator_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones must be there on every machine

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// zones are every offset from UTC that is a multiple of a quarter hour, and places whose clocks
// changed in all the ways that clocks do.
func zones(t testing.TB) []*time.Location {
	t.Helper()
	all := []*time.Location{time.UTC}
	for minutes := -12 * 60; minutes <= 14*60; minutes += 15 {
		all = append(all, time.FixedZone("", minutes*60))
	}
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Sydney", "America/Sao_Paulo",
		"Australia/Lord_Howe", // half an hour of summer time
		"Africa/Casablanca",   // summer time but for one month
		"Antarctica/Troll",    // two hours of it
		"Asia/Kathmandu",      // three quarters of an hour off
		"Pacific/Apia",        // left out a whole day
		"America/Caracas",     // moved its standard time by half an hour
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, zone)
	}
	return all
}

// changes are instants around both changes of the clocks of many places, every few minutes.
func changes() []time.Time {
	var all []time.Time
	for _, change := range []time.Time{
		time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),   // Berlin, summer time begins
		time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC),  // and ends
		time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC),    // New York
		time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC),   //
		time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC),   // Lord Howe, summer time ends
		time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC), //
	} {
		for minutes := -90; minutes <= 90; minutes += 5 {
			all = append(all, change.Add(time.Duration(minutes)*time.Minute+123*time.Millisecond))
		}
	}
	return all
}

// A peer computed its epoch with the offset that the server's zone had on the day of the start, so
// the end of summer time replayed an hour of IDs. Here only instants count.
func TestTheZoneOfTheEpochChangesNothing(t *testing.T) {
	utc := generator.Default()
	for _, zone := range zones(t) {
		local := utc
		local.Epoch = utc.Epoch.In(zone)
		if !local.End().Equal(utc.End()) {
			t.Fatalf("%v: the end is %v, in UTC %v", zone, local.End(), utc.End())
		}
		last := int64(-1)
		for i, at := range changes() {
			if i%37 == 0 {
				last = -1 // the next change
			}
			parts := generator.Parts{Time: at, Node: 7, Sequence: 9}
			want, err := utc.Compose(parts)
			if err != nil {
				t.Fatal(err)
			}
			parts.Time = at.In(zone)
			got, err := local.Compose(parts)
			if err != nil || got != want {
				t.Fatalf("%v: Compose at %v is %d, %v, in UTC %d", zone, parts.Time, got, err, want)
			}
			if got <= last {
				t.Fatalf("%v: the id of %v is not above that of five minutes before", zone, parts.Time)
			}
			last = got
			back := mustDecompose(t, local, got)
			if back.Time.Location() != time.UTC || !back.Time.Equal(at) {
				t.Fatalf("%v: %v came back as %v", zone, at, back.Time)
			}
			lo, hi, err := local.Range(parts.Time, parts.Time.Add(local.Tick))
			if wantLo, wantHi, _ := utc.Range(at, at.Add(utc.Tick)); err != nil || lo != wantLo || hi != wantHi {
				t.Fatalf("%v: Range at %v is [%d, %d), %v", zone, parts.Time, lo, hi, err)
			}
		}
	}
}

// A generator whose clock and whose process live in any zone goes through both changes of the
// clocks like one in UTC, restarted at every step.
func TestGeneratorsCrossBothClockChangesInEveryZone(t *testing.T) {
	defer func(before *time.Location) { time.Local = before }(time.Local)
	for _, zone := range zones(t) {
		time.Local = zone
		last := int64(-1)
		for i, at := range changes() {
			if i%37 == 0 {
				last = -1
			}
			clock := newTestClock(at.Local())
			g := mustNew(t, generator.Default(), generator.FixedNode(3), generator.WithClock(clock.Now),
				generator.WithMaxAhead(0))
			clock.Move(time.Millisecond)
			id := mustNext(t, g)
			if got, want := mustDecompose(t, g.Layout(), id).Time, at.Add(time.Millisecond); !got.Equal(want) {
				t.Fatalf("%v: the id of %v tells %v", zone, at, got)
			}
			if id <= last {
				t.Fatalf("%v: the id of %v is not above that of five minutes before", zone, at.In(zone))
			}
			last = id
		}
	}
}

// An epoch with a monotonic reading, such as time.Now gives, means the same instant as without.
func TestAMonotonicReadingInTheEpochChangesNothing(t *testing.T) {
	now := time.Now()
	with, without := generator.Default(), generator.Default()
	with.Epoch, without.Epoch = now, now.Round(0)
	for _, at := range []time.Time{now, now.Add(time.Hour), now.Round(0), now.Round(0).Add(time.Minute)} {
		got, err := with.Compose(generator.Parts{Time: at})
		want, wantErr := without.Compose(generator.Parts{Time: at.Round(0)})
		if err != nil || wantErr != nil || got != want {
			t.Errorf("%v: %d, %v with a monotonic reading, %d, %v without", at, got, err, want, wantErr)
		}
	}
	clock := newTestClock(now.Add(time.Hour))
	g := mustNew(t, with, always(1), generator.WithClock(clock.Now))
	parts := mustDecompose(t, without, mustNext(t, g))
	if late := now.Round(0).Add(time.Hour).Sub(parts.Time); late < 0 || late >= with.Tick {
		t.Errorf("an id of %v tells %v", now.Add(time.Hour), parts.Time)
	}
}
