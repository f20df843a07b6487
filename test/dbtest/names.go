package dbtest

import (
	"crypto/rand"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"time"
)

// namePrefix marks the databases of tests. The name goes on with the machine, the process and the time, all
// in base 36: snowflaketest_MACHINE_PROCESS_MINUTE_RANDOM. So it says whose it is, and whether it was left
// behind.
const namePrefix = "snowflaketest_"

// leftAfter is when a database of another machine counts as left behind. No test run is that long.
const leftAfter = 24 * time.Hour

// newName returns the name of a database or schema of this process.
func newName() string {
	minute := strconv.FormatInt(time.Now().Unix()/60, 36)
	random := strings.ToLower(rand.Text()[:12])
	process := strconv.FormatInt(int64(os.Getpid()), 36)
	return namePrefix + strings.Join([]string{machine(), process, minute, random}, "_")
}

// machine tells hosts apart whose tests use one server.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}

// abandoned reports whether a database was left behind: by a process of this machine that has ended, or by
// somebody a day ago.
func abandoned(name string, now time.Time, lives func(pid int) bool) bool {
	parts := strings.Split(strings.TrimPrefix(name, namePrefix), "_")
	if !strings.HasPrefix(name, namePrefix) || len(parts) != 4 {
		return false // not of this form, so it may be somebody's own
	}
	pid, err := strconv.ParseInt(parts[1], 36, 32)
	minute, err2 := strconv.ParseInt(parts[2], 36, 64)
	if err != nil || err2 != nil {
		return false
	}
	return parts[0] == machine() && !lives(int(pid)) || now.Sub(time.Unix(minute*60, 0)) > leftAfter
}
