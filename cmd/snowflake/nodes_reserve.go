package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func reserveCommand() command {
	return command{
		name: "nodes reserve", args: "NODE", short: "keep a node number out of the leases",
		help: `
Keeps a node number out of the leases for good, for IDs that are made in another way: an import of old rows
with generator.Backfill, or a program with a number given by hand. No process leases the number any more.
--for says what the number is for, and the command can be repeated with the same purpose.

The command refuses (exit code 3) if a process holds the number, or if it is reserved for another purpose.
Choose a number that was never leased: one that was leased before has IDs in the tables already, so it needs
--force.

--layout is the layout that the programs use. It fails if the leases are for another one. A database without
the table gets it.
` + dsnHelp + `

  snowflake nodes reserve 900 --for import --dsn "$DSN"
  snowflake nodes reserve 901 --for legacy --json`,
		flags: func(set *flag.FlagSet, o *options) {
			dsnFlags(set, o)
			layoutFlag(set, o)
			jsonFlag(set, o)
			set.StringVar(&o.purpose, "for", "", "the `PURPOSE` of the number, from 1 to 100 bytes")
			set.BoolVar(&o.force, "force", false, "reserve the number although it was leased before")
		},
		run: runReserve,
	}
}

func runReserve(ctx context.Context, e *env, o *options, args []string) (err error) {
	node, err := nodeOf("reserve", args)
	if err != nil {
		return err
	}
	if o.purpose == "" {
		return usagef("nodes reserve: a purpose is needed: give --for")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	if node > p.layout.MaxNode() {
		return usagef("nodes reserve: layout %s has the nodes 0 to %d", p.name, p.layout.MaxNode())
	}
	store, done, err := openStore(ctx, e, o, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	before, found, err := nodeIn(ctx, store, node)
	if err != nil {
		return err
	}
	if found && before.SecondsLeft < 0 && !o.force {
		return fmt.Errorf("%w: node %d was leased before, so the tables may have IDs of it: choose a number "+
			"that was never leased, or use --force", errRefused, node)
	}
	if err := lease.Reserve(ctx, store, p.layout, node, o.purpose); err != nil {
		if errors.Is(err, lease.ErrNodeHeld) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		return err
	}
	after, _, err := nodeIn(ctx, store, node)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, after)
	}
	say(e.out, "Node %d is %s. No process leases it.\n", node, plain(after.Owner))
	return nil
}

// nodeIn finds the record of a node.
func nodeIn(ctx context.Context, store lease.Store, node int64) (nodeInfo, bool, error) {
	nodes, err := listNodes(ctx, store)
	if err != nil {
		return nodeInfo{}, false, err
	}
	for _, n := range nodes {
		if n.Node == node {
			return n, true, nil
		}
	}
	return nodeInfo{}, false, nil
}
