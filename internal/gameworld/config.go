package gameworld

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

var (
	// ErrConfig is wrapped by the errors for a [Config] or [Kind] that makes no sense.
	ErrConfig = errors.New("gameworld: invalid config")

	// ErrDatabase is wrapped by the errors for what the database refused. What was made until then
	// is left as it is.
	ErrDatabase = errors.New("gameworld: database")
)

// mostRoles keeps names within the nickname's column.
const mostRoles = 50_000_000

// Config says what database to make. The zero Config lacks the number of roles.
type Config struct {
	// Server is the number of the server. It is in names, in accounts.server_id and in the settings,
	// and it is the node of the keys.
	Server int64
	// Roles is the size: so many roles, and about 17 rows for each of them in all tables together.
	Roles int
	// Seed decides everything but the keys, together with the rest of the Config.
	Seed uint64
	// Clash is the share, from 0 to 1, of roles, guilds and accounts whose names are those of every
	// other server that has a Clash. See [Nickname] for what is alike in which way.
	Clash float64
	// Names is the way in which the names are compared.
	Names Names
	// Layout is that of the keys. The zero Layout stands for generator.Game().
	Layout generator.Layout
	// Faults are what is wrong with this server.
	Faults Faults
}

// Names is a way in which a database compares nicknames and guild names.
type Names int

const (
	// DatabaseNames are compared as the database does where nothing else is said.
	DatabaseNames Names = iota
	// ExactNames differ if any letter does. MariaDB still ignores trailing blanks.
	ExactNames
	// FoldedNames differ only by more than case and accents. SQLite knows the case of ASCII letters
	// only; MariaDB also ignores trailing blanks. PostgreSQL needs a collation for it, which is
	// made, and which needs a server with ICU.
	FoldedNames
)

// Faults are what can be wrong with a server. The zero Faults are none.
type Faults struct {
	// Node, if it is not 0, is the node of the keys in place of the server's number, as if two
	// servers had been given one number by mistake. Accounts, roles and guilds of two servers with
	// one node have at least one key in common, that of their first row.
	Node int64
	// Orphans is how many items and how many letters belong to roles that are not there, and how
	// many roles are in guilds that are not there.
	Orphans int
	// MissingTable is the name of a table that this server does not have: one that no other table
	// refers to.
	MissingTable string
	// OtherType is a column, as table.column, that has another type on this server: a number or a
	// time is a text, a truth value a number, a text or a blob of another length. Keys and
	// references have none.
	OtherType string
	// OtherOrder makes the columns of every table stand in reverse.
	OtherOrder bool
	// Taken is how many roles have the nicknames that roles with a clashing one would be given next:
	// the name, cut as the column needs it, with ".s" and the server's number behind it, or with "s",
	// the number and a point before it.
	Taken int
	// Twins is how many pairs of roles have nicknames that differ only by case on this very server.
	// They need ExactNames.
	Twins int
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Layout.TimeBits == 0 {
		c.Layout = generator.Game()
	}
	return c
}

// node is the node of the keys.
func (c Config) node() int64 {
	if c.Faults.Node != 0 {
		return c.Faults.Node
	}
	return c.Server
}

// validate reports all faults at once.
func (c Config) validate() error {
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
		}
	}
	bad(c.Server < 0 || c.Server >= mostServers, "Server %d is not between 0 and %d", c.Server, mostServers-1)
	bad(c.Roles < 1 || c.Roles > mostRoles, "Roles %d is not between 1 and %d", c.Roles, mostRoles)
	bad(math.IsNaN(c.Clash) || c.Clash < 0 || c.Clash > 1, "Clash %v is not a share between 0 and 1", c.Clash)
	f := c.Faults
	bad(f.Orphans < 0 || f.Orphans > c.Roles, "Orphans %d is not between 0 and the number of roles, %d",
		f.Orphans, c.Roles)
	bad(f.Taken < 0 || f.Twins < 0, "Taken %d or Twins %d is negative", f.Taken, f.Twins)
	bad(f.Twins > 0 && c.Names != ExactNames, "Twins need ExactNames, or the database would refuse them")
	bad(f.Taken > 0 && c.Clash == 0, "Taken names need a Clash: nothing else would be renamed")
	faults = append(faults, c.validateSchema())
	if err := errors.Join(faults...); err != nil {
		return err
	}
	clashing := c.clashing(c.Roles)
	possible := len(takenNames(c.Server, clashing, f.Taken))
	bad(possible < f.Taken, "only %d names can be taken where %d clash, not %d", possible, clashing, f.Taken)
	need := clashing + f.Taken + 2*f.Twins
	bad(need > c.Roles, "%d roles are not enough for %d with clashing names, %d taken ones and %d twins",
		c.Roles, clashing, f.Taken, 2*f.Twins)
	return errors.Join(faults...)
}

// validateSchema looks at what the schema depends on.
func (c Config) validateSchema() error {
	var faults []error
	if c.Names < DatabaseNames || c.Names > FoldedNames {
		faults = append(faults, fmt.Errorf("%w: Names %d is none of the constants", ErrConfig, c.Names))
	}
	f, all := c.Faults, tables()
	if name := f.MissingTable; name != "" {
		var free []string
		for _, t := range all {
			if !referred(all, t.name) {
				free = append(free, t.name)
			}
		}
		if !slices.Contains(free, name) {
			faults = append(faults, fmt.Errorf("%w: MissingTable %q is none that can be missing: %s",
				ErrConfig, name, strings.Join(free, ", ")))
		}
	}
	if f.OtherType != "" {
		name, columnName, _ := strings.Cut(f.OtherType, ".")
		if !slices.ContainsFunc(all, func(t table) bool {
			return t.name == name && name != f.MissingTable &&
				slices.ContainsFunc(t.columns, func(c column) bool { return c.name == columnName && t.changeable(c) })
		}) {
			faults = append(faults, fmt.Errorf("%w: OtherType %q is no table.column that could have another type: "+
				"it has to be there, and be neither key nor reference", ErrConfig, f.OtherType))
		}
	}
	return errors.Join(faults...)
}

// clashing is how many of n have names of other servers.
func (c Config) clashing(n int) int { return int(math.Round(c.Clash * float64(n))) }
