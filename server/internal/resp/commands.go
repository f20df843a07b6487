package resp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
)

const (
	protocol = "resp"
	// maxFailures is how many wrong tokens a connection may show.
	maxFailures = 3
	// unauthorized is the code of Redis for it, and the one of the metrics.
	unauthorized = "unauthenticated"
)

// errEnding is what a client is told while the service is ending.
var errEnding = errors.New("this replica is ending; ask another one")

// command is a command, and what COMMAND tells of it.
type command struct {
	least, most int   // how many arguments it may have, its name included
	keys        int64 // where its key is, 0 for nowhere
	flags       string
	run         func(*session, []string) (more bool)
}

// commands are all commands. Those of Redis have the same form here, as far as they have a meaning.
func commands() map[string]command {
	texts := func(c *session, args []string) bool { return c.many(args, c.out.id) }
	integers := func(c *session, args []string) bool { return c.many(args, c.out.integer) }
	return map[string]command{
		"INCR":              {2, 2, 1, "write fast", (*session).increment},
		"INCRBY":            {3, 3, 1, "write fast", (*session).incrementBy},
		"SNOWFLAKE.NEXT":    {2, 3, 0, "write fast", texts},
		"SNOWFLAKE.TEXT":    {2, 3, 0, "write fast", texts},
		"SNOWFLAKE.INTEGER": {2, 3, 0, "write fast", integers},
		"AUTH":              {2, maxArgs, 0, "noscript loading stale fast no_auth", (*session).auth},
		"HELLO":             {1, maxArgs, 0, "noscript loading stale fast no_auth", (*session).hello},
		"QUIT":              {1, maxArgs, 0, "noscript loading stale fast no_auth", (*session).quit},
		"PING":              {1, 2, 0, "fast", (*session).ping},
		"ECHO":              {2, 2, 0, "fast", (*session).ping},
		"INFO":              {1, maxArgs, 0, "loading stale", (*session).info},
		"SELECT":            {2, 2, 0, "loading stale fast", (*session).selects},
		"CLIENT":            {2, maxArgs, 0, "", (*session).clients},
		"COMMAND":           {1, maxArgs, 0, "loading stale", (*session).describe},
	}
}

// strays says whether the first word of a command is one of HTTP: a browser that a page has sent here, whose
// next lines would be commands of the page. Redis ends such connections, too.
func strays(word string) bool {
	switch word {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI":
		return true
	}
	return strings.HasSuffix(word, ":") // a header, such as Host
}

// answer writes the answer to a command, and returns false if the connection ends with it.
func (c *session) answer(args []string) bool {
	began := time.Now()
	name := strings.ToUpper(args[0])
	if strays(name) {
		c.server.strayed.Add(1)
		c.server.options.Metrics.Observe(protocol, "strayed", 0)
		c.server.log.Warn("strayed", "snowflaked: a client spoke HTTP to the port of the protocol of Redis, as "+
			"a browser does when a page misuses it; the connection was ended",
			"client", c.conn.RemoteAddr().String())
		c.out.fail("ERR", "this port does not speak HTTP")
		return false
	}
	if stopping, _ := c.server.stops(); stopping && name != "QUIT" {
		c.refused = true
		return c.observe(began, &issue.Fault{Kind: issue.Unavailable, Text: errEnding.Error()})
	}
	if c.idle != nil && !c.idle.Allow() {
		return c.observe(began, &issue.Fault{Kind: issue.Unavailable, Text: netlimit.ErrTooMany.Error()})
	}
	if !c.known && name != "AUTH" && name != "HELLO" && name != "QUIT" {
		c.out.fail("NOAUTH", "Authentication required.")
		c.server.options.Metrics.Observe(protocol, unauthorized, time.Since(began))
		return true
	}
	one, known := c.server.commands[name]
	switch {
	case !known:
		c.out.fail("ERR", fmt.Sprintf("unknown command '%.40s'", name))
		return true
	case len(args) < one.least || len(args) > one.most:
		return c.observe(began, wrongNumber(name))
	}
	return one.run(c, args)
}

// wrongNumber is the error for a command that has too few or too many arguments.
func wrongNumber(name string) error {
	return &issue.Fault{Kind: issue.Invalid, Text: fmt.Sprintf("wrong number of arguments for '%.40s' command",
		strings.ToLower(name))}
}

func (c *session) increment(args []string) bool {
	began := time.Now()
	ids, err := c.server.options.Desk.Issue(c.server.context, c.client, args[1], 1)
	if err == nil {
		c.out.id(ids[0])
	}
	return c.observe(began, err)
}

// incrementBy is how some clients send INCR. Other increments have no meaning: the numbers between two IDs
// belong to others.
func (c *session) incrementBy(args []string) bool {
	if n, err := strconv.ParseInt(args[2], 10, 64); err != nil || n != 1 {
		text := "INCRBY gives one ID, so the increment has to be 1; SNOWFLAKE.NEXT gives many"
		if err != nil {
			text = notInteger
		}
		return c.observe(time.Now(), &issue.Fault{Kind: issue.Invalid, Text: text})
	}
	return c.increment(args)
}

// notInteger is the text of Redis.
const notInteger = "value is not an integer or out of range"

func (c *session) many(args []string, write func(int64)) bool {
	began := time.Now()
	count, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		text := "the count is not an integer or out of range"
		return c.observe(began, &issue.Fault{Kind: issue.Invalid, Text: text})
	}
	source := ""
	if len(args) > 2 {
		source = args[2]
	}
	ids, err := c.server.options.Desk.Issue(c.server.context, c.client, source, count)
	if err == nil {
		c.out.array(len(ids))
		for _, id := range ids {
			write(id)
		}
	}
	return c.observe(began, err)
}

// observe writes the error of a command, if there is one, and counts the command. It always returns true.
func (c *session) observe(began time.Time, err error) bool {
	code := "ok"
	if err != nil {
		fault := issue.AsFault(err)
		code = fault.Kind.String()
		c.out.fail(prefix(fault.Kind), fault.Text)
	}
	c.server.options.Metrics.Observe(protocol, code, time.Since(began))
	return true
}

// prefix is the word by which clients tell errors. TRYAGAIN is the one that Redis has for it.
func prefix(k issue.Kind) string {
	switch k {
	case issue.Unavailable, issue.Deadline, issue.Canceled:
		return "TRYAGAIN"
	case issue.Exhausted:
		return "EXHAUSTED"
	case issue.Invalid, issue.Unknown, issue.Broken, issue.Internal:
	}
	return "ERR"
}

// ping handles PING and ECHO.
func (c *session) ping(args []string) bool {
	if len(args) == 2 {
		c.out.bulk(args[1])
	} else {
		c.out.simple("PONG")
	}
	return true
}

func (c *session) quit([]string) bool {
	c.out.simple("OK")
	return false
}

func (c *session) info([]string) bool {
	c.out.bulk(strings.Join(c.server.options.Info(), "\r\n") + "\r\n")
	return true
}

// auth handles AUTH token and AUTH user token. The name of the user does not matter if there are tokens.
// Without them it answers as a Redis without a password, whose only user is default.
func (c *session) auth(args []string) bool {
	switch {
	case len(args) > 3:
		c.out.fail("ERR", "syntax error")
	case !c.server.options.Tokens.Required() && len(args) == 2:
		c.out.fail("ERR", "AUTH <password> called without any password configured for the default user. "+
			"Are you sure your configuration is correct?")
	case !c.admit(args[len(args)-2], args[len(args)-1]):
		return c.failures < maxFailures
	default:
		c.out.simple("OK")
	}
	return true
}

// admit checks a token, and writes the error if it is wrong.
func (c *session) admit(user, token string) bool {
	tokens := c.server.options.Tokens
	if _, ok := tokens.Check(token); ok && (tokens.Required() || user == "default") {
		c.known = true
		return true
	}
	c.failures++
	c.server.options.Metrics.Observe(protocol, unauthorized, 0)
	if tokens.Required() {
		c.out.fail("WRONGPASS", "invalid token")
	} else {
		c.out.fail("WRONGPASS", "invalid username-password pair or user is disabled.")
	}
	return false
}

// hello handles HELLO [version [AUTH user token] [SETNAME name]], with which newer clients begin.
func (c *session) hello(args []string) bool {
	three := c.out.three
	rest := args[1:]
	if len(rest) > 0 {
		if rest[0] != "2" && rest[0] != "3" {
			c.out.fail("NOPROTO", "unsupported protocol version")
			return true
		}
		three, rest = rest[0] == "3", rest[1:]
	}
	for len(rest) > 0 {
		switch option := strings.ToUpper(rest[0]); {
		case option == "AUTH" && len(rest) >= 3:
			if !c.admit(rest[1], rest[2]) {
				return c.failures < maxFailures
			}
			rest = rest[3:]
		case option == "SETNAME" && len(rest) >= 2:
			if !plainName(rest[1]) {
				c.out.fail("ERR", wrongName)
				return true
			}
			c.name, rest = rest[1], rest[2:]
		default:
			c.out.fail("ERR", "syntax error in HELLO")
			return true
		}
	}
	if !c.known {
		c.out.fail("NOAUTH", "HELLO must be called with a token, or after AUTH")
		return true
	}
	c.out.three = three
	c.out.dictionary(4)
	c.out.bulk("server")
	c.out.bulk("snowflaked")
	c.out.bulk("proto")
	if three {
		c.out.integer(3)
	} else {
		c.out.integer(2)
	}
	c.out.bulk("mode")
	c.out.bulk("standalone")
	c.out.bulk("role")
	c.out.bulk("master")
	return true
}
