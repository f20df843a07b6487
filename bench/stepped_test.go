package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// The probe is worth nothing if its clocks are not set, so this library is looked at, of which the answers
// are known.
func TestAProbeSetsItsClocks(t *testing.T) {
	nightly.Only(t, "it builds package time and all that needs it, which takes minutes")
	probe, err := buildProbe(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	probeOf := func(library, step string) outcome {
		t.Helper()
		o, err := runProbe(probe, library, step)
		if err != nil {
			t.Fatal(err)
		}
		if o.Made == 0 || o.LeadMS == nil {
			t.Fatalf("%s, %s: no ID: %+v", library, step, o)
		}
		return o
	}
	if o := probeOf("this", "back by 1 s"); o.SilentMS < 500 || o.Refused+o.Repeated+o.Behind > 0 {
		t.Errorf("back by 1 s: %s: %+v", o, o)
	}
	if o := probeOf("this", "back by 1 h"); o.Refused == 0 || o.Repeated+o.Behind > 0 {
		t.Errorf("back by 1 h: %s: %+v", o, o)
	}
	if o := probeOf("this", "forward by 1 h"); math.Abs(*o.LeadMS) > ms(time.Minute) || o.Refused+o.Behind > 0 {
		t.Errorf("forward by 1 h: %s: %+v", o, o)
	}
	// By hand, nothing remembers how far the number has come.
	if o := probeOf("this", "back by 1 s, and a restart"); o.Repeated == 0 {
		t.Errorf("back by 1 s, and a restart: %s: %+v", o, o)
	}
	// This one reads the monotonic clock only.
	if o := probeOf("bwmarrin/snowflake", "back by 1 h"); *o.LeadMS < ms(59*time.Minute) || o.Behind > 0 {
		t.Errorf("bwmarrin, back by 1 h: %s: %+v", o, o)
	}
}

func TestAProbeNeedsTheOverlay(t *testing.T) {
	err := probe(os.Stdout, "this", "forward by 1 h")
	if err == nil || !strings.Contains(err.Error(), "built with the clocks of the machine") {
		t.Errorf("a probe without the overlay: %v", err)
	}
	if err := probe(os.Stdout, "this", "sideways"); err == nil {
		t.Error("a step that is not there is accepted")
	}
}

func TestAnUnknownPackageTimeIsRefused(t *testing.T) {
	_, text, err := packageTime()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := withStep(text); err != nil {
		t.Error(err)
	}
	for _, changed := range []string{"mono := runtimeNow()", "subMono(t.ext, runtimeNano()-startNano)"} {
		other := strings.Replace(text, changed, "changed()", 1)
		if _, err := withStep(other); err == nil || !strings.Contains(err.Error(), "adapt withStep") {
			t.Errorf("a package time without %q: %v", changed, err)
		}
	}
}

func TestTheCellsSayWhatHappened(t *testing.T) {
	ahead := ms(time.Hour)
	for want, o := range map[string]outcome{
		"goes on":                                 {LastMS: 2999},
		"goes on, 1 h ahead of the clock":         {LastMS: 2999, LeadMS: &ahead},
		"goes on, **7 of 9 repeated**":            {LastMS: 2999, Made: 9, Repeated: 7, Behind: 7},
		"goes on, not in order":                   {LastMS: 2999, Behind: 7},
		"waits for 1.0 s":                         {LastMS: 2999, SilentMS: 998},
		"refuses for 1.0 s":                       {LastMS: 2999, SilentMS: 998, Refused: 5},
		"refuses after 38 ms, not in order":       {LastMS: 38, Refused: 5, Behind: 1},
		"waits for more than 3.0 s":               {LastMS: 7, LeadMS: &ahead},
		"waits for 2.0 s, 1 h ahead of the clock": {LastMS: 2999, SilentMS: 2000, LeadMS: &ahead},
	} {
		if got := o.String(); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
