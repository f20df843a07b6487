package resp

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

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
			c.out.null()
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
	if len(args) == 1 {
		c.entries(all)
		return true
	}
	switch name := strings.ToUpper(args[1]); {
	case name == "COUNT" && len(args) == 2:
		c.out.integer(int64(len(all)))
	case name == "INFO" && len(args) == 2:
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
			c.out.nullArray()
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
	var names []string
	for _, name := range wanted {
		if name = strings.ToUpper(name); slices.Contains(all, name) {
			names = append(names, name)
		}
	}
	if len(wanted) == 0 {
		names = all
	}
	c.out.dictionary(len(names))
	for _, name := range names {
		c.out.bulk(strings.ToLower(name))
		c.out.dictionary(1)
		c.out.bulk("summary")
		c.out.bulk("see docs/service.md of snowflaked")
	}
}
