package gameworld

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Create makes the database of a server on db, which has none of its tables yet, and says what it
// has. It works on one connection of db, and leaves it as it was.
//
// It returns an error wrapping [ErrConfig], which has changed nothing, [ErrDatabase], or that of
// ctx. After the latter two, drop what was made.
func Create(ctx context.Context, db *sql.DB, kind Kind, cfg Config) (Summary, error) {
	if err := errors.Join(kind.validate(), cfg.validate()); err != nil {
		return Summary{}, err
	}
	m, err := newMint(ctx, cfg.Server)
	if err != nil {
		return Summary{}, err
	}
	b, err := newBuilder(cfg, m)
	if err != nil {
		return Summary{}, err
	}
	if err := b.create(ctx, db, kind); err != nil {
		return Summary{}, fmt.Errorf("gameworld: server %d: %w", cfg.Server, err)
	}
	return *b.summary, nil
}

// create makes the tables and their rows. No order of the tables suits a cycle of foreign keys, so
// nothing looks at them while rows are written: PostgreSQL gets them afterwards, and the others have
// a switch, which belongs to the connection.
func (b *builder) create(ctx context.Context, db *sql.DB, kind Kind) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: no connection: %w", ErrDatabase, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	restore, err := unchecked(ctx, conn, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()

	d := b.ddl(kind)
	before, after := d.tables, slices.Concat(d.indexes, d.references)
	if kind == MySQL {
		before, after = slices.Concat(before, after), nil
	}
	if err := run(ctx, conn, before); err != nil {
		return err
	}
	for _, t := range b.tables() {
		l := newLoader(ctx, conn, kind, t)
		if err := l.end(b.fill(t.name, l.add)); err != nil {
			return err
		}
		b.summary.Rows[t.name] = l.written
	}
	return run(ctx, conn, after)
}

// run executes statements that make the schema.
func run(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%w: the database has to be without these tables: %.60q: %w", ErrDatabase, s, err)
		}
	}
	return nil
}

// unchecked switches off that the connection looks at foreign keys, and returns what puts that back.
func unchecked(ctx context.Context, conn *sql.Conn, kind Kind) (restore func() error, err error) {
	var read, set string
	switch kind {
	case SQLite:
		read, set = "PRAGMA foreign_keys", "PRAGMA foreign_keys = "
	case MySQL:
		read, set = "SELECT @@SESSION.foreign_key_checks", "SET SESSION foreign_key_checks = "
	default:
		return func() error { return nil }, nil
	}
	var before int
	if err := conn.QueryRowContext(ctx, read).Scan(&before); err != nil {
		return nil, fmt.Errorf("%w: whether it looks at foreign keys: %w", ErrDatabase, err)
	}
	if _, err := conn.ExecContext(ctx, set+"0"); err != nil {
		return nil, fmt.Errorf("%w: looking at foreign keys could not be switched off: %w", ErrDatabase, err)
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), set+string(rune('0'+before)))
		if err == nil {
			return nil
		}
		// Nobody should get this connection again.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return fmt.Errorf("%w: looking at foreign keys could not be switched on again: %w", ErrDatabase, err)
	}, nil
}

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
		nickname := b.nicknames.nickname(i)
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
			err := add(board.name, int64(place+1), b.roles[i], b.nicknames.nickname(i), board.scores[i])
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

// addItems writes what the roles own: some in bags, and bags in bags. An item lies in one whose key
// is less or greater than its own, as it comes.
func (b *builder) addItems(add adder) error {
	r := b.rand("items")
	keys := make([]int64, 2*itemsPerRole)
	for _, role := range b.roles {
		// From 3 to 9, so that there are as many as itemsPerRole on average.
		n := itemsPerRole/2 + r.IntN(itemsPerRole+1)
		if err := b.mint.fill(keys[:n]); err != nil {
			return err
		}
		// An item lies in one that comes before it in this order, so none lies in itself.
		order := r.Perm(n)
		parents := make([]any, n)
		for i := 1; i < n; i++ {
			if r.IntN(5) < 2 {
				parents[order[i]] = keys[order[r.IntN(i)]]
			}
		}
		for i, key := range keys[:n] {
			if err := b.addItem(add, r, key, role, parents[i]); err != nil {
				return err
			}
		}
	}
	for range b.Faults.Orphans {
		if err := b.mint.fill(keys[:2]); err != nil {
			return err
		}
		b.summary.Orphans["items.role_id"]++
		if err := b.addItem(add, r, keys[0], keys[1], nil); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addItem(add adder, r *rand.Rand, key, role int64, parent any) error {
	var attributes any
	if r.IntN(3) == 0 {
		attributes = `{"might": ` + strconv.Itoa(r.IntN(100)) + `, "maker": "Zoë"}`
	}
	amount := 1 + r.Int64N(20)
	// Quarters are exact in binary.
	durability := float64(r.IntN(400)) / 4
	return add(key, role, parent, r.Int64N(500), amount, r.IntN(2) == 0, durability, attributes, during(r))
}

// addMail writes letters from role to role, and from nobody.
func (b *builder) addMail(add adder) error {
	r := b.rand("mail")
	for _, to := range b.roles {
		for range lettersPerRole {
			if err := b.addLetter(add, r, to); err != nil {
				return err
			}
		}
	}
	for range b.Faults.Orphans {
		nobody, err := b.mint.next()
		if err != nil {
			return err
		}
		b.summary.Orphans["mail.to_id"]++
		if err := b.addLetter(add, r, nobody); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addLetter(add adder, r *rand.Rand, to int64) error {
	key, err := b.mint.next()
	if err != nil {
		return err
	}
	var from any
	name, gold := "The Crown", int64(0)
	if r.IntN(5) > 0 {
		i := r.IntN(len(b.roles))
		from, name = b.roles[i], b.nicknames.nickname(i)
	}
	if r.IntN(3) == 0 {
		gold = r.Int64N(1000)
	}
	titles := [...]string{"Hello", "Your reward", "Re: the siege", "¡Felicidades!", "节日快乐"}
	title := titles[r.IntN(len(titles))]
	return add(key, from, to, name, title, "Dear friend,\n\n"+title+", 'tis "+name+" who writes.\n",
		gold, r.IntN(2) == 0, during(r))
}

// addFriends writes pairs of roles, the earlier role first.
func (b *builder) addFriends(add adder) error {
	r := b.rand("friends")
	for i := range b.roles {
		reach := min(len(b.roles)-1-i, 50)
		if reach == 0 {
			break
		}
		near, far := 1+r.IntN(reach), 1+r.IntN(reach)
		if err := b.addFriend(add, r, i, i+near); err != nil {
			return err
		}
		if near == far {
			continue
		}
		if err := b.addFriend(add, r, i, i+far); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addFriend(add adder, r *rand.Rand, role, friend int) error {
	return add(b.roles[role], b.roles[friend], r.Int64N(1000), during(r))
}

// addSettings writes what has the same names on every server.
func (b *builder) addSettings(add adder) error {
	r := b.rand("settings")
	for _, s := range [][2]string{
		{"server_number", strconv.FormatInt(b.Server, 10)},
		{"server_name", "Realm " + strconv.FormatInt(b.Server, 10)},
		{"opened_on", opened().Format(time.DateOnly)},
		{"level_cap", strconv.Itoa(60 + 10*r.IntN(3))},
		{"experience_rate", "1." + strconv.Itoa(r.IntN(10))},
		{"season", strconv.Itoa(1 + r.IntN(12))},
		{"motd", "Welcome, traveler – 欢迎!"},
		{"market_tax", strconv.Itoa(r.IntN(10)) + "%"},
		{"city_owner", b.nicknames.nickname(r.IntN(len(b.roles)))},
		{"maintenance", "off"},
	} {
		if err := add(s[0], s[1], during(r)); err != nil {
			return err
		}
	}
	return nil
}

// addCounters writes what several servers have as one sum.
func (b *builder) addCounters(add adder) error {
	r := b.rand("counters")
	for _, name := range []string{"boss_damage", "duels", "gifts", "monsters_slain"} {
		amount := r.Int64N(1_000_000_000)
		b.summary.Counters[name] = amount
		if err := add(name, amount); err != nil {
			return err
		}
	}
	return nil
}

// addWorld writes the one row of world, whose key is 1 everywhere.
func (b *builder) addWorld(add adder) error {
	r := b.rand("world")
	champion := b.roles[r.IntN(len(b.roles))]
	return add(int64(1), opened().Add(time.Duration(b.Server%1000)*time.Hour), 1+r.Int64N(100), champion)
}

// addLogins writes the table whose key the database counts.
func (b *builder) addLogins(add adder) error {
	r := b.rand("logins")
	for _, role := range b.roles {
		for range loginsPerRole {
			address := "203.0.113." + strconv.Itoa(r.IntN(256))
			if r.IntN(4) == 0 {
				address = "2001:db8::" + strconv.FormatInt(r.Int64N(1<<16), 16)
			}
			if err := add(role, address, during(r)); err != nil {
				return err
			}
		}
	}
	return nil
}
