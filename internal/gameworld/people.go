package gameworld

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// builder makes the rows of one server. Of each table it makes one row after the other; it keeps
// only what other tables refer to.
type builder struct {
	Config
	nicknames nicknames
	mint      *mint
	summary   *Summary

	accounts, guilds, roles []int64 // keys
	gold                    []int64 // of the roles
	level                   []int64
}

// The sizes of tables, for each role or for how many of them.
const (
	rolesPerGuild    = 40
	itemsPerRole     = 6
	lettersPerRole   = 2
	entriesPerRole   = 3 // of the ledger
	loginsPerRole    = 2
	placesPerBoard   = 100
	outOfTenAccounts = 8 // accounts for ten roles
)

// rand is the stream of numbers of one subject, so that no table depends on how another is made.
func (c Config) rand(subject string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(subject)) // of a hash it never fails
	return rand.New(rand.NewPCG(c.Seed^h.Sum64(), uint64(c.Server)))
}

// during is a moment of the first 200 days of the server, to the microsecond.
func during(r *rand.Rand) time.Time {
	return opened().Add(time.Duration(r.Int64N(200*24*3600*1_000_000)) * time.Microsecond)
}

func newBuilder(c Config, m *mint) (*builder, error) {
	b := &builder{
		Config: c, nicknames: c.nicknames(), mint: m,
		accounts: make([]int64, max(c.Roles*outOfTenAccounts/10, 1)),
		guilds:   make([]int64, max(c.Roles/rolesPerGuild, 1)),
		roles:    make([]int64, c.Roles),
		gold:     make([]int64, c.Roles),
		level:    make([]int64, c.Roles),
	}
	b.summary = newSummary(c)
	for _, keys := range [][]int64{b.accounts, b.guilds, b.roles} {
		if err := m.fill(keys); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// An adder takes a row, whose values are in the order of the table's columns.
type adder func(row ...any) error

// fill makes the rows of a table.
func (b *builder) fill(name string, add adder) error {
	switch name {
	case "accounts":
		return b.addAccounts(add)
	case "guilds":
		return b.addGuilds(add)
	case "roles":
		return b.addRoles(add)
	case "items":
		return b.addItems(add)
	case "mail":
		return b.addMail(add)
	case "friends":
		return b.addFriends(add)
	case "rankings":
		return b.addRankings(add)
	case "settings":
		return b.addSettings(add)
	case "counters":
		return b.addCounters(add)
	case "world":
		return b.addWorld(add)
	case "gold_ledger":
		return b.addLedger(add)
	default:
		return b.addLogins(add)
	}
}

// addAccounts writes the accounts. One and the same player may have one on several servers.
func (b *builder) addAccounts(add adder) error {
	r, own := b.rand("accounts"), b.ownNames()
	clashing := b.clashing(len(b.accounts))
	for i, key := range b.accounts {
		login := own.name(i)
		if i < clashing {
			login = "player" + strconv.Itoa(i)
		}
		recharged := int64(0)
		if r.IntN(4) == 0 {
			recharged = 100 * (1 + r.Int64N(2000))
		}
		b.summary.Recharged += recharged
		err := add(key, login+"@players.example", b.Server, recharged, r.IntN(200) == 0, during(r))
		if err != nil {
			return err
		}
	}
	return nil
}

// addGuilds writes the guilds. Their leaders are the first roles.
func (b *builder) addGuilds(add adder) error {
	r, own := b.rand("guilds"), b.ownNames()
	clashing := b.clashing(len(b.guilds))
	for i, key := range b.guilds {
		name := "House " + own.name(i)
		if i < clashing {
			name, _ = GuildName(b.Server, i)
		}
		var notice any
		if r.IntN(2) == 0 {
			notice = "Siege on day " + strconv.Itoa(1+r.IntN(30)) + ".\nBring \"everything\" – 全部 – it's ours."
		}
		funds := r.Int64N(1_000_000)
		b.summary.Funds += funds
		if err := add(key, name, b.roles[i], funds, notice, during(r)); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addRoles(add adder) error {
	r, ledger := b.rand("roles"), b.rand("ledger")
	for i, key := range b.roles {
		nickname := b.nicknames.of(i)
		var guild any
		switch {
		case i < len(b.guilds):
			guild = b.guilds[i]
		case r.IntN(5) > 0:
			guild = b.guilds[r.IntN(len(b.guilds))]
		}
		if i >= len(b.roles)-b.Faults.Orphans {
			nowhere, err := b.mint.next()
			if err != nil {
				return err
			}
			guild = nowhere
			b.summary.Orphans["roles.guild_id"]++
		}
		for _, e := range entries(ledger) {
			b.gold[i] += e
		}
		b.level[i] = 1 + int64(60*r.Float64()*r.Float64())
		face := make([]byte, 4+r.IntN(12))
		for j := range face {
			face[j] = byte(r.IntN(256))
		}
		created := during(r)
		var seen any
		if r.IntN(10) > 0 {
			seen = created.Add(time.Duration(r.Int64N(int64(90 * 24 * time.Hour)))).Truncate(time.Microsecond)
		}
		b.summary.Gold += b.gold[i]
		err := add(key, b.accounts[i%len(b.accounts)], nickname, guild, b.level[i], b.gold[i], face,
			seen, created)
		if err != nil {
			return err
		}
	}
	return nil
}

// entries are what one role gained and spent, never more than it had.
func entries(r *rand.Rand) [entriesPerRole]int64 {
	gained := 100 + r.Int64N(100_000)
	return [...]int64{gained, -r.Int64N(gained), 1 + r.Int64N(5_000)}
}

// addLedger writes the same entries that the roles had their gold from.
func (b *builder) addLedger(add adder) error {
	r, ledger := b.rand("dates"), b.rand("ledger")
	reasons := [entriesPerRole]string{"quest", "market", "reward"}
	for _, role := range b.roles {
		for i, amount := range entries(ledger) {
			key, err := b.mint.next()
			if err != nil {
				return err
			}
			b.summary.Ledger += amount
			if err := add(key, role, amount, reasons[i], during(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRankings writes who is first by what. It follows from the roles, so a merge makes it anew.
func (b *builder) addRankings(add adder) error {
	for _, board := range []struct {
		name   string
		scores []int64
	}{{"gold", b.gold}, {"level", b.level}} {
		for place, i := range best(board.scores, placesPerBoard) {
			err := add(board.name, int64(place+1), b.roles[i], b.nicknames.of(i), board.scores[i])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// best are the indexes of the greatest scores, the earlier of two equal ones first.
func best(scores []int64, n int) []int {
	places := make([]int, len(scores))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return places[:min(n, len(places))]
}
