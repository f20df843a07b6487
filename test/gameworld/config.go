package gameworld

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	// ErrConfig is wrapped by the errors for a [Config] or [Kind] that makes no sense.
	ErrConfig = errors.New("gameworld: invalid config")

	// ErrDatabase is wrapped by the errors for what the database refused. What was made until then
	// is left as it is.
	ErrDatabase = errors.New("gameworld: database")
)

// maxRoles keeps names within the nickname's column.
const maxRoles = 50_000_000

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
	// Faults are what is wrong with this server.
	Faults Faults
}

// Names is a way in which a database compares nicknames and guild names.
type Names int

const (
	// DatabaseNames are compared as the database does where nothing else is said.
	DatabaseNames Names = iota
	// FoldedNames differ only by more than case and accents. SQLite knows the case of ASCII letters
	// only; MariaDB also ignores trailing blanks. PostgreSQL needs a collation for it, which is
	// made, and which needs a server with ICU.
	FoldedNames
)

// Faults are what can be wrong with a server. The zero Faults are none.
type Faults struct {
	// Orphans is how many items and how many letters belong to roles that are not there, and how
	// many roles are in guilds that are not there.
	Orphans int
	// MissingTable is the name of a table that this server does not have: one that no other table
	// refers to.
	MissingTable string
	// OtherOrder makes the columns of every table stand in reverse.
	OtherOrder bool
	// Taken is how many roles have the nicknames that roles with a clashing one would be given next:
	// the name, cut as the column needs it, with ".s" and the server's number behind it, or with "s",
	// the number and a point before it.
	Taken int
}

// validate reports all faults at once.
func (c Config) validate() error {
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
		}
	}
	bad(c.Server < 0 || c.Server >= maxServers, "Server %d is not between 0 and %d", c.Server, maxServers-1)
	bad(c.Roles < 1 || c.Roles > maxRoles, "Roles %d is not between 1 and %d", c.Roles, maxRoles)
	bad(math.IsNaN(c.Clash) || c.Clash < 0 || c.Clash > 1, "Clash %v is not a share between 0 and 1", c.Clash)
	f := c.Faults
	bad(f.Orphans < 0 || f.Orphans > c.Roles, "Orphans %d is not between 0 and the number of roles, %d",
		f.Orphans, c.Roles)
	bad(f.Taken < 0, "Taken %d is negative", f.Taken)
	bad(f.Taken > 0 && c.Clash == 0, "Taken names need a Clash: nothing else would be renamed")
	faults = append(faults, c.validateSchema())
	if err := errors.Join(faults...); err != nil {
		return err
	}
	clashing := c.clashing(c.Roles)
	possible := len(takenNames(c.Server, clashing, f.Taken))
	bad(possible < f.Taken, "only %d names can be taken where %d clash, not %d", possible, clashing, f.Taken)
	need := clashing + f.Taken
	bad(need > c.Roles, "%d roles are not enough for %d with clashing names and %d taken ones", c.Roles,
		clashing,
		f.Taken)
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
	return errors.Join(faults...)
}

// clashing is how many of n have names of other servers.
func (c Config) clashing(n int) int { return int(math.Round(c.Clash * float64(n))) }

func (c Config) ownNames() ownNames {
	// Short lists are as long as two syllables go.
	o := ownNames{server: c.Server, count: int64(syllables * syllables)}
	for o.count < 2*int64(c.Roles) {
		o.count *= int64(syllables)
	}
	// A step that is 1 more than a multiple of the number of syllables has no divisor in common
	// with a power of it, so every name comes once.
	r := c.rand("names")
	o.step = 1 + int64(syllables)*r.Int64N(o.count/int64(syllables))
	o.offset = r.Int64N(o.count)
	return o
}

func (c Config) nicknames() nicknames {
	n := nicknames{
		own: c.ownNames(), server: c.Server, roles: int64(c.Roles), clashing: c.clashing(c.Roles),
	}
	n.taken = takenNames(c.Server, n.clashing, c.Faults.Taken)
	n.toOwn = n.clashing + len(n.taken)
	r := c.rand("slots")
	n.step, n.offset = 1+r.Int64N(n.roles), r.Int64N(n.roles)
	for gcd(n.step, n.roles) != 1 {
		n.step++
	}
	return n
}

// rand is the stream of numbers of one subject, so that no table depends on how another is made.
func (c Config) rand(subject string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(subject)) // of a hash it never fails
	return rand.New(rand.NewPCG(c.Seed^h.Sum64(), uint64(c.Server)))
}
