package nightly_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestATestOfTheNightRunsOnlyAtNight(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": true} {
		t.Setenv(nightly.Variable, value)
		ran := false
		t.Run("of the night", func(t *testing.T) {
			nightly.Only(t, "it takes an hour")
			ran = true
		})
		if ran != want || nightly.Enabled() != want {
			t.Errorf("with %q the test ran: %t, and the night is enabled: %t", value, ran, nightly.Enabled())
		}
		if rounds := nightly.Pick(1, 100); (rounds == 100) != want {
			t.Errorf("with %q there are %d rounds", value, rounds)
		}
	}
}
