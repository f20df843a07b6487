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

// errArgs is the wrong number of arguments.
var errArgs = errors.New("wrong number of arguments")

// answer writes the answer to a command, and returns false if the connection ends with it.
func (c *session) answer(args []string) bool {
	began := time.Now()
	name := strings.ToUpper(args[0])
	if c.idle != nil && !c.idle.Allow() {
		c.observe(began, &issue.Fault{Kind: issue.Unavailable, Text: netlimit.ErrTooMany.Error()})
		return true
	}
	if !c.known && name != "AUTH" && name != "HELLO" && name != "QUIT" {
		c.out.fail("NOAUTH", "Authentication required.")
		c.server.options.Metrics.Observe(protocol, unauthorized, time.Since(began))
		return true
	}
	switch name {
	case "INCR":
		c.observe(began, c.next(args, 2, c.increment))
	case "SNOWFLAKE.NEXT":
		c.observe(began, c.next(args, 3, func(args []string) error { return c.many(args, c.out.integer) }))
	case "SNOWFLAKE.TEXT":
		c.observe(began, c.next(args, 3, func(args []string) error {
			return c.many(args, func(id int64) { c.out.bulk(strconv.FormatInt(id, 10)) })
		}))
	case "AUTH":
		return c.auth(args)
	case "HELLO":
		return c.hello(args)
	case "QUIT":
		c.out.simple("OK")
		return false
	case "PING", "ECHO":
		c.echo(name, args)
	case "INFO":
		c.out.bulk(strings.Join(c.server.options.Info(), "\r\n") + "\r\n")
	case "CLIENT", "SELECT":
		c.out.simple("OK") // clients name themselves when they connect; there is one database
	case "COMMAND":
		c.out.array(0)
	default:
		c.out.fail("ERR", fmt.Sprintf("unknown command '%.40s'", name))
	}
	return true
}

// next runs a command that has from 2 to most arguments, its name included.
func (c *session) next(args []string, most int, run func([]string) error) error {
	if len(args) < 2 || len(args) > most {
		return &issue.Fault{Kind: issue.Invalid, Text: fmt.Sprintf("%v for '%.40s' command", errArgs,
			strings.ToLower(args[0]))}
	}
	return run(args[1:])
}

func (c *session) increment(args []string) error {
	ids, err := c.server.options.Desk.Issue(c.server.context, args[0], 1)
	if err != nil {
		return err
	}
	c.out.integer(ids[0])
	return nil
}

func (c *session) many(args []string, write func(int64)) error {
	count, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return &issue.Fault{Kind: issue.Invalid, Text: "the count is not an integer or out of range"}
	}
	source := ""
	if len(args) > 1 {
		source = args[1]
	}
	ids, err := c.server.options.Desk.Issue(c.server.context, source, count)
	if err != nil {
		return err
	}
	c.out.array(len(ids))
	for _, id := range ids {
		write(id)
	}
	return nil
}

// observe writes the error of a command, and counts the command.
func (c *session) observe(began time.Time, err error) {
	code := "ok"
	if err != nil {
		fault := issue.AsFault(err)
		code = fault.Kind.String()
		c.out.fail(prefix(fault.Kind), fault.Text)
	}
	c.server.options.Metrics.Observe(protocol, code, time.Since(began))
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

func (c *session) echo(name string, args []string) {
	switch {
	case len(args) == 2:
		c.out.bulk(args[1])
	case len(args) == 1 && name == "PING":
		c.out.simple("PONG")
	default:
		c.out.fail("ERR", errArgs.Error())
	}
}

// auth handles AUTH token and AUTH user token. The name of the user does not matter.
func (c *session) auth(args []string) bool {
	if len(args) < 2 || len(args) > 3 {
		c.out.fail("ERR", errArgs.Error())
		return true
	}
	if !c.admit(args[len(args)-1]) {
		return c.failures < maxFailures
	}
	c.out.simple("OK")
	return true
}

// admit checks a token, and writes the error if it is wrong.
func (c *session) admit(token string) bool {
	if _, ok := c.server.options.Tokens.Check(token); ok {
		c.known = true
		return true
	}
	c.failures++
	c.server.options.Metrics.Observe(protocol, unauthorized, 0)
	c.out.fail("WRONGPASS", "invalid token")
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
			if !c.admit(rest[2]) {
				return c.failures < maxFailures
			}
			rest = rest[3:]
		case option == "SETNAME" && len(rest) >= 2:
			rest = rest[2:]
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
