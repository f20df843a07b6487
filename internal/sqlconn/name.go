package sqlconn

import (
	"os"
	"strconv"
	"strings"
)

// maxName is how long a name PostgreSQL shows.
const maxName = 63

// ConnectionName returns the name under which an administrator finds a connection of this process, such as
// "snowflakeplugin lease web-1:4711": its purpose, the name of the machine and the number of the process.
func ConnectionName(purpose string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	what := "snowflakeplugin " + purpose + " "
	process := ":" + strconv.Itoa(os.Getpid())
	// Only letters that need no quoting anywhere.
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, host)
	return what + host[:min(len(host), maxName-len(what)-len(process))] + process
}
