package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

func segmentsResiduesCommand() command {
	return command{
		name: "segments residues", args: "NAME DSN...", short: "share a counter between several databases",
		help: `
Makes the databases ticket servers for the counter NAME. The first gives the numbers with remainder 0, the
second those with remainder 1, and so on; the modulus is the number of databases. This is how two ticket
servers become three. Name all old databases and the new ones. A DSN that begins with $ is the name of an
environment variable that holds the DSN, which hides the password: '$TICKETS_A'.

Look with --dry-run first. The command freezes the counter in every database, raises it above all numbers
that were claimed anywhere, and sets the residues, so no number is given twice. If it is interrupted, the
counters that are not finished stay frozen: run it again with the same databases. Programs that use the
counter go on with the numbers that they have claimed, and then fail until they are restarted with the new
residues.

A database that you forget would give numbers that the others give too. The command refuses (exit code 3)
if the databases do not have all the remainders of their old modulus. Use --force if the one that is missing
never gave a number, or is out of use for good. DSNs of one and the same database are refused always. To find
that out, the command makes a counter in each database for a moment, and removes it again.
` + dsnHelp + `

  snowflake segments residues tickets a.db b.db --dry-run
  snowflake segments residues tickets a.db b.db`,
		flags: func(set *flag.FlagSet, o *options) {
			counterTableFlag(set, o)
			jsonFlag(set, o)
			dryRunFlag(set, o)
			set.BoolVar(&o.force, "force", false, "go on although a remainder of the old modulus is missing")
		},
		run: runSegmentsResidues,
	}
}

// ticketServer is one of the databases that share a counter.
type ticketServer struct {
	label, dsn string
	store      *gormsegment.Store // nil if the table is not there, and the command only looks
	before     *counterInfo       // nil if there is no counter
}

// residueInfo is a database in JSON. It is named by its place, because a DSN may hold a password.
type residueInfo struct {
	Database  string       `json:"database"`
	Before    *counterInfo `json:"before"` // null if there was no counter
	After     *counterInfo `json:"after"`  // null if the command only looked
	Remainder int          `json:"remainder"`
	Modulus   int          `json:"modulus"`
}

func runSegmentsResidues(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) < 2 {
		return usagef("segments residues: the name of the counter and at least one DSN are needed")
	}
	name := args[0]
	if err := segment.CheckName(name); err != nil {
		return usagef("segments residues: %s", err)
	}
	servers, err := ticketServers(e, args[1:])
	if err != nil {
		return err
	}
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	for i := range servers {
		s := &servers[i]
		done, err := s.look(ctx, o.table, name)
		if err != nil {
			return fmt.Errorf("%s: %w", s.label, err)
		}
		open = append(open, done)
	}
	if err := forgotten(name, servers); err != nil && (!o.force || !errors.Is(err, errRefused)) {
		return err
	}
	infos := make([]residueInfo, len(servers))
	for i, s := range servers {
		infos[i] = residueInfo{Database: s.label, Before: s.before, Remainder: i, Modulus: len(servers)}
	}
	if !o.dryRun {
		if err := setResidues(ctx, o.table, name, servers, infos); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(e.out, infos)
	}
	return printResidues(e.out, infos, o.dryRun)
}

// ticketServers reads the arguments.
func ticketServers(e *env, args []string) ([]ticketServer, error) {
	servers := make([]ticketServer, 0, len(args))
	for i, dsn := range args {
		s := ticketServer{label: fmt.Sprintf("database %d", i+1), dsn: dsn}
		if variable, ok := strings.CutPrefix(dsn, "$"); ok {
			variable = strings.Trim(variable, "{}")
			s.label += " ($" + plain(variable) + ")"
			if s.dsn = e.getenv(variable); s.dsn == "" {
				return nil, usagef("segments residues: %s: the environment variable is not set", s.label)
			}
		}
		for j, other := range servers {
			if other.dsn == s.dsn {
				return nil, usagef("segments residues: databases %d and %d are one and the same", j+1, i+1)
			}
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// look opens the store and reads the counter, if they are there. It returns the function that closes the
// store.
func (s *ticketServer) look(ctx context.Context, table, name string) (func() error, error) {
	store, done, err := openCounters(ctx, s.dsn, table, false)
	if errors.Is(err, errNoTable) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	c, found, err := counterOf(ctx, store, name)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	if found {
		info := newCounterInfo(c)
		s.before = &info
	}
	s.store = store
	return done, nil
}

// forgotten returns an error if no database has the counter. It returns one that wraps errRefused if the
// databases lack a remainder of one of their moduli, because another database then gives those numbers.
func forgotten(name string, servers []ticketServer) error {
	have := make(map[int64][]int64)
	frozen, found := 0, false
	for _, s := range servers {
		if s.before == nil {
			continue
		}
		found = true
		switch c := s.before; {
		case c.Modulus == 0:
			frozen++
		case !slices.Contains(have[c.Modulus], c.Remainder):
			have[c.Modulus] = append(have[c.Modulus], c.Remainder)
		}
	}
	if !found {
		return fmt.Errorf("none of the databases has a counter %q: the name may be mistyped; a new counter "+
			"needs no preparation, because its first claim notes the residue", plain(name))
	}
	for modulus, remainders := range have {
		// A counter that was frozen by a run that was interrupted does not tell its old residue.
		if modulus > int64(len(remainders)+frozen) {
			slices.Sort(remainders)
			return fmt.Errorf("%w: counter %q has modulus %d, and the databases have only these remainders of it: "+
				"%v; name every database that has the counter, or its numbers repeat; --force is for one that never "+
				"gave a number or is out of use for good", errRefused, plain(name), modulus, remainders)
		}
	}
	return nil
}

// setResidues makes the tables that are not there, and sets the residues.
func setResidues(
	ctx context.Context, table, name string, servers []ticketServer, infos []residueInfo,
) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	ledgers := make([]segment.Ledger, len(servers))
	for i, s := range servers {
		store := s.store
		if store == nil {
			made, done, err := openCounters(ctx, s.dsn, table, true)
			if err != nil {
				return fmt.Errorf("%s: %w", s.label, err)
			}
			open = append(open, done)
			store = made
		}
		ledgers[i] = store
	}
	if err := distinct(ctx, ledgers, servers); err != nil {
		return err
	}
	if err := segment.SetResidues(ctx, name, ledgers...); err != nil {
		return fmt.Errorf("counters may be frozen, so run the command again with the same databases: %w", err)
	}
	for i, s := range ledgers {
		c, _, err := counterOf(ctx, s, name)
		if err != nil {
			return fmt.Errorf("%s: %w", servers[i].label, err)
		}
		info := newCounterInfo(c)
		infos[i].After = &info
	}
	return nil
}

// distinct makes sure that no two stores are one table. It makes a counter in each of them, and then each has
// to see its own only.
func distinct(ctx context.Context, ledgers []segment.Ledger, servers []ticketServer) (err error) {
	var made closers
	defer func() { err = errors.Join(err, made.close()) }()
	token := "snowflake segments residues " + rand.Text()
	for i, s := range ledgers {
		probe := segment.Counter{Name: fmt.Sprintf("%s %d", token, i), Next: 1, Modulus: 1}
		ok, failure := s.Change(ctx, segment.Counter{Name: probe.Name}, probe)
		if failure == nil && !ok {
			failure = errors.New("the counter is there already")
		}
		if failure != nil {
			return fmt.Errorf("%s: making a counter to tell the databases apart: %w", servers[i].label, failure)
		}
		made = append(made, func() error {
			if _, err := s.Remove(context.WithoutCancel(ctx), probe); err != nil {
				return fmt.Errorf("%s: removing the counter %q: %w", servers[i].label, probe.Name, err)
			}
			return nil
		})
	}
	for i, s := range ledgers {
		seen, err := s.Counters(ctx, token)
		if err != nil {
			return fmt.Errorf("%s: %w", servers[i].label, err)
		}
		if len(seen) != 1 {
			return usagef("segments residues: %s is there %d times, with different DSNs; nothing was changed",
				servers[i].label, len(seen))
		}
	}
	return nil
}

func printResidues(w io.Writer, infos []residueInfo, dryRun bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "DATABASE\tNEXT BEFORE\tRESIDUE BEFORE\tNEXT\tRESIDUE\n")
	highest := int64(1)
	for _, i := range infos {
		if i.Before != nil {
			highest = max(highest, i.Before.Next)
		}
	}
	for _, i := range infos {
		before, residue, next := "-", "no counter", fmt.Sprint(highest)
		if i.Before != nil {
			before, residue = fmt.Sprint(i.Before.Next), i.Before.residue()
		}
		if i.After != nil {
			next = fmt.Sprint(i.After.Next)
		}
		after := counterInfo{Remainder: int64(i.Remainder), Modulus: int64(i.Modulus)}
		say(table, "%s\t%s\t%s\t%s\t%s\n", i.Database, before, residue, next, after.residue())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if dryRun {
		say(w, "Nothing was changed. The next numbers will be higher if numbers are claimed meanwhile.\n")
		return nil
	}
	say(w, "The residues are set. Restart the programs that use the counter with the new residues.\n")
	return nil
}
