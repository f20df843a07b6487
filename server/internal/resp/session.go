package resp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/unwrap"
)

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	idle   *netlimit.Conn // may be nil
	caller issue.Caller
	reader *reader
	out    *writer

	id       int64 // of CLIENT ID
	name     string
	known    bool      // a token was shown, or none is required
	failures int       // of AUTH
	began    time.Time // of the command

	mu      sync.Mutex
	waiting bool // for the first byte of a command
}

func newSession(s *Server, conn net.Conn) *session {
	c := &session{
		server: s, conn: conn, idle: netlimit.Of(conn), id: s.sessions.Add(1),
		known: !s.options.Tokens.Required(),
	}
	c.caller.Client = c
	c.reader = newReader(conn)
	c.out = &writer{Writer: bufio.NewWriterSize(slowWriter{conn, s.options.Slow}, readBuffer)}
	return c
}

// slowWriter gives every write a deadline of its own.
type slowWriter struct {
	conn  net.Conn
	limit time.Duration
}

func (w slowWriter) Write(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
		return 0, err
	}
	return w.conn.Write(p)
}

// serve answers commands until the connection ends. Answers to commands that came together leave
// together.
func (c *session) serve() {
	for {
		if err := c.await(); err != nil {
			return
		}
		args, err := c.reader.command()
		if err != nil {
			var wrong protocolError
			if errors.As(err, &wrong) {
				c.out.fail("ERR", wrong.Error())
				_ = c.out.Flush()
			}
			return
		}
		more := true
		if len(args) > 0 {
			more = c.answer(args)
		}
		if c.out.broken() {
			return // the client has gone, and gets none of what it has asked for
		}
		if !more || c.reader.buf.Buffered() == 0 {
			if c.out.Flush() != nil || !more {
				return
			}
			if stopping, settle := c.server.stops(); stopping {
				c.leave(settle)
				return
			}
		}
	}
}

// leave tells the client that no command is answered any more, so it repeats those that are under way on
// another connection. It waits until the client has closed its side, too: a connection that is closed while
// something comes in loses the last answers.
func (c *session) leave(settle time.Duration) {
	c.mu.Lock()
	c.waiting = true
	err := c.conn.SetReadDeadline(time.Now().Add(settle))
	c.mu.Unlock()
	if secure, ok := c.conn.(*tls.Conn); ok {
		_ = secure.CloseWrite()
	}
	if plain := unwrap.To[*net.TCPConn](c.conn); err == nil && plain != nil && plain.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c.conn)
	}
}

// await waits for the first byte of a command, and then gives the rest of it its time.
func (c *session) await() error {
	if c.reader.buf.Buffered() > 0 {
		return c.conn.SetReadDeadline(time.Now().Add(c.server.options.Slow))
	}
	c.mu.Lock()
	c.waiting = true // so wake finds it if the service begins to end after this
	deadline := time.Now().Add(c.patience())
	err := c.conn.SetReadDeadline(deadline)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.idle.SetIdle(true)
	_, err = c.reader.buf.Peek(1)
	c.idle.SetIdle(false)
	c.mu.Lock()
	c.waiting = false
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.conn.SetReadDeadline(time.Now().Add(c.server.options.Slow))
}

// wake shortens the wait for the next command, because the service is ending.
func (c *session) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, settle := c.server.stops(); c.waiting {
		_ = c.conn.SetReadDeadline(time.Now().Add(settle))
	}
}

// waits says whether nothing of a command has come that is not answered.
func (c *session) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// patience is how long the next command may take to begin.
func (c *session) patience() time.Duration {
	limit := c.server.options.Idle
	if !c.known {
		limit = c.server.options.Greeting
	}
	if stopping, settle := c.server.stops(); stopping {
		limit = min(limit, settle)
	}
	return limit
}

const (
	protocol = "resp"
	// maxFailures is how many wrong tokens a connection may show.
	maxFailures = 3
	// unauthorized is the code of Redis for it, and the one of the metrics.
	unauthorized = "unauthenticated"
)

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
	c.began = time.Now()
	name := strings.ToUpper(args[0])
	if strays(name) {
		c.server.options.Metrics.Observe(protocol, "strayed", 0)
		c.server.log.Warn("strayed", "snowflaked: a client spoke HTTP to the port of the protocol of Redis, as "+
			"a browser does when a page misuses it; the connection was ended",
			"client", c.conn.RemoteAddr().String())
		c.out.fail("ERR", fmt.Sprintf("this port does not speak HTTP, and has no command '%.40s'", name))
		return false
	}
	if !c.known && name != "AUTH" && name != "HELLO" && name != "QUIT" {
		c.out.fail("NOAUTH", "Authentication required.")
		c.server.options.Metrics.Observe(protocol, unauthorized, time.Since(c.began))
		return true
	}
	one, known := c.server.commands[name]
	switch {
	case !known:
		c.out.fail("ERR", fmt.Sprintf("unknown command '%.40s'", name))
		return true
	case len(args) < one.least || len(args) > one.most:
		return c.observe(wrongNumber(name))
	}
	return one.run(c, args)
}

// wrongNumber is the error for a command that has too few or too many arguments.
func wrongNumber(name string) error {
	return &issue.Fault{Kind: issue.Invalid, Text: fmt.Sprintf("wrong number of arguments for '%.40s' command",
		strings.ToLower(name))}
}

func (c *session) increment(args []string) bool {
	ids, err := c.server.options.Desk.Issue(c.server.context, c.caller, args[1], 1)
	if err == nil {
		c.out.id(ids[0])
	}
	return c.observe(err)
}

// incrementBy is how some clients send INCR. Other increments have no meaning: the numbers between two IDs
// belong to others.
func (c *session) incrementBy(args []string) bool {
	if n, err := strconv.ParseInt(args[2], 10, 64); err != nil || n != 1 {
		text := "INCRBY gives one ID, so the increment has to be 1; SNOWFLAKE.NEXT gives many"
		if err != nil {
			text = notInteger
		}
		return c.observe(&issue.Fault{Kind: issue.Invalid, Text: text})
	}
	return c.increment(args)
}

// notInteger is the text of Redis.
const notInteger = "value is not an integer or out of range"

func (c *session) many(args []string, write func(int64)) bool {
	count, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		text := "the count is not an integer or out of range"
		return c.observe(&issue.Fault{Kind: issue.Invalid, Text: text})
	}
	source := ""
	if len(args) > 2 {
		source = args[2]
	}
	ids, err := c.server.options.Desk.Issue(c.server.context, c.caller, source, count)
	if err == nil {
		c.out.array(len(ids))
		for _, id := range ids {
			write(id)
		}
	}
	return c.observe(err)
}

// observe writes the error of a command, if there is one, and counts the command. It always returns true.
func (c *session) observe(err error) bool {
	code := "ok"
	if err != nil {
		fault := issue.AsFault(err)
		code = string(fault.Kind)
		c.out.fail(prefix(fault.Kind), fault.Text)
	}
	c.server.options.Metrics.Observe(protocol, code, time.Since(c.began))
	return true
}

// prefix is the word by which clients tell errors. TRYAGAIN is the one that Redis has for it.
func prefix(k issue.Kind) string {
	switch k {
	case issue.Unavailable, issue.Deadline, issue.Canceled:
		return "TRYAGAIN"
	case issue.Exhausted:
		return "EXHAUSTED"
	case issue.Denied:
		return "NOPERM"
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
	if shown, ok := tokens.Check(token); ok && (tokens.Required() || user == "default") {
		c.known, c.caller.Token = true, shown
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
	c.out.bulk("server", "snowflaked", "proto")
	if three {
		c.out.integer(3)
	} else {
		c.out.integer(2)
	}
	c.out.bulk("mode", "standalone", "role", "master")
	return true
}

// wrongName is the text of Redis.
const wrongName = "Client names cannot contain spaces, newlines or special characters."

// plainName says whether a client may call itself so.
func plainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// selects handles SELECT. There is one database.
func (c *session) selects(args []string) bool {
	switch n, err := strconv.ParseInt(args[1], 10, 32); {
	case err != nil:
		c.out.fail("ERR", notInteger)
	case n != 0:
		c.out.fail("ERR", "DB index is out of range")
	default:
		c.out.simple("OK")
	}
	return true
}

// clients handles CLIENT ID, GETNAME, SETNAME, SETINFO and INFO, with which clients begin.
func (c *session) clients(args []string) bool {
	name := strings.ToUpper(args[1])
	number, known := map[string]int{"ID": 2, "GETNAME": 2, "SETNAME": 3, "SETINFO": 4, "INFO": 2}[name]
	switch {
	case !known:
		c.unknownSub(args)
		return true
	case len(args) != number:
		c.out.fail("ERR", wrongNumber("client|"+name).Error())
		return true
	}
	switch name {
	case "ID":
		c.out.integer(c.id)
	case "GETNAME":
		if c.name == "" {
			c.out.null('$')
			break
		}
		c.out.bulk(c.name)
	case "INFO":
		c.out.bulk(fmt.Sprintf("id=%d addr=%s name=%s db=0\n", c.id, c.conn.RemoteAddr(), c.name))
	default: // SETNAME name, SETINFO attribute value
		if !plainName(args[len(args)-1]) {
			c.out.fail("ERR", wrongName)
			break
		}
		if name == "SETNAME" {
			c.name = args[2]
		}
		c.out.simple("OK")
	}
	return true
}

func (c *session) unknownSub(args []string) {
	c.out.fail("ERR", fmt.Sprintf("unknown subcommand '%.40s'. Try %s HELP.", args[1],
		strings.ToUpper(args[0])))
}

// describe handles COMMAND, and its COUNT, INFO, LIST and DOCS.
func (c *session) describe(args []string) bool {
	all := slices.Sorted(maps.Keys(c.server.commands))
	name := "INFO"
	if len(args) > 1 {
		name = strings.ToUpper(args[1])
	}
	switch {
	case name == "COUNT" && len(args) == 2:
		c.out.integer(int64(len(all)))
	case name == "INFO" && len(args) <= 2:
		c.entries(all)
	case name == "INFO":
		c.entries(args[2:])
	case name == "LIST" && len(args) == 2:
		c.names(all)
	case name == "LIST" && len(args) == 5 && strings.EqualFold(args[2], "FILTERBY") &&
		strings.EqualFold(args[3], "PATTERN"):
		c.names(slices.DeleteFunc(all, func(one string) bool {
			matches, err := path.Match(strings.ToLower(args[4]), strings.ToLower(one))
			return err != nil || !matches
		}))
	case name == "DOCS":
		c.docs(all, args[2:])
	case name == "COUNT" || name == "LIST":
		c.out.fail("ERR", wrongNumber("command|"+name).Error())
	default:
		c.unknownSub(args)
	}
	return true
}

// entries writes what Redis tells of commands: the name, how many arguments there are, the flags, and where
// the keys are.
func (c *session) entries(names []string) {
	c.out.array(len(names))
	for _, name := range names {
		one, known := c.server.commands[strings.ToUpper(name)]
		if !known {
			c.out.null('*')
			continue
		}
		arity := int64(one.least)
		if one.least != one.most {
			arity = -arity
		}
		c.out.array(6)
		c.out.bulk(strings.ToLower(name))
		c.out.integer(arity)
		flags := strings.Fields(one.flags)
		c.out.array(len(flags))
		for _, flag := range flags {
			c.out.simple(flag)
		}
		for range 3 { // the first key, the last one, and the step between them
			c.out.integer(one.keys)
		}
	}
}

func (c *session) names(names []string) {
	c.out.array(len(names))
	for _, name := range names {
		c.out.bulk(strings.ToLower(name))
	}
}

// docs writes where the documentation is. Commands that are not there are left out, as Redis does.
func (c *session) docs(all, wanted []string) {
	names := all
	if len(wanted) > 0 {
		names = slices.DeleteFunc(wanted, func(name string) bool {
			return !slices.Contains(all, strings.ToUpper(name))
		})
	}
	c.out.dictionary(len(names))
	for _, name := range names {
		c.out.bulk(strings.ToLower(name))
		c.out.dictionary(1)
		c.out.bulk("summary", "see docs/service.md of snowflaked")
	}
}
