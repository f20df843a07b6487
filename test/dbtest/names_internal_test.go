package dbtest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOnlyTheDatabasesOfEndedProcessesAreLeftovers(t *testing.T) {
	t.Parallel()
	own, now := newName(), time.Now()
	dead := func(int) bool { return false }
	lives := func(pid int) bool { return pid == os.Getpid() }
	elsewhere := strings.Replace(own, machine(), "elsewhere", 1)
	for _, c := range []struct {
		what, name string
		at         time.Time
		lives      func(int) bool
		want       bool
	}{
		{"of this process", own, now, lives, false},
		{"of a process that has ended", own, now, dead, true},
		{"of a process of another machine", elsewhere, now, dead, false},
		{"of another machine, two days later", elsewhere, now.Add(48 * time.Hour), lives, true},
		{"of a process that lives and takes its number from a dead one", own, now.Add(48 * time.Hour), lives, true},
		{"named by hand", namePrefix + "mine", now, dead, false},
		{"of somebody else", "shop", now, dead, false},
		{"with a number that is none", namePrefix + machine() + "_!_1_x", now, dead, false},
	} {
		if got := abandoned(c.name, c.at, c.lives); got != c.want {
			t.Errorf("a database %s (%s) is left: %t, want %t", c.what, c.name, got, c.want)
		}
	}
	if !alive(os.Getpid()) {
		t.Error("this process does not count as one that runs")
	}
	if !strings.Contains(own, "_"+strconv.FormatInt(int64(os.Getpid()), 36)+"_") || len(own) > 63 {
		t.Errorf("the name %s does not say its process, or is too long", own)
	}
}
