package gameworld

import (
	"math/rand/v2"
	"strconv"
	"time"
)

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
		from, name = b.roles[i], b.nicknames.of(i)
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
		{"city_owner", b.nicknames.of(r.IntN(len(b.roles)))},
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
