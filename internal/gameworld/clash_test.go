package gameworld_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

// meeting counts the names of one server that the database takes for names of the other, in the
// collation of the column.
func meeting(t *testing.T, target dbtest.Target, one, two world, table, name string) int64 {
	t.Helper()
	exec(t, target, one.DB, "CREATE TABLE others_"+table+" AS SELECT "+name+" FROM "+table+" WHERE 1 = 0")
	for chunk := range slices.Chunk(texts(t, two.DB, "SELECT "+name+" FROM "+table), 100) {
		args := make([]any, len(chunk))
		for i := range chunk {
			args[i] = chunk[i]
		}
		exec(t, target, one.DB, "INSERT INTO others_"+table+" VALUES (?)"+strings.Repeat(", (?)", len(chunk)-1), args...)
	}
	return number(t, one.DB, fmt.Sprintf("SELECT count(*) FROM %s a JOIN others_%s b ON a.%s = b.%s", table, table, name, name))
}

// Which likenesses a database takes for the same name, whatever the server has asked for.
func alike(target dbtest.Target, names gameworld.Names) []gameworld.Likeness {
	const same, letter, accent, blank, long = gameworld.Same, gameworld.Case, gameworld.Accent, gameworld.Blank, gameworld.Long
	folds := names == gameworld.FoldedNames
	switch {
	case target.Dialect == "mysql" && names == gameworld.ExactNames:
		return []gameworld.Likeness{same, blank, long}
	case target.Dialect == "mysql":
		return []gameworld.Likeness{same, letter, accent, blank, long}
	case target.Dialect == "postgres" && folds:
		return []gameworld.Likeness{same, letter, accent, long}
	case folds:
		return []gameworld.Likeness{same, letter, long}
	}
	return []gameworld.Likeness{same, long}
}

func TestTheAskedForShareOfNamesClashes(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, names := range []gameworld.Names{gameworld.DatabaseNames, gameworld.ExactNames, gameworld.FoldedNames} {
			cfg := gameworld.Config{Server: 1, Roles: 400, Seed: 5, Clash: 0.2, Names: names}
			one := create(t, target, cfg)
			cfg = gameworld.Config{Server: 2, Roles: 800, Seed: 6, Clash: 0.1, Names: names}
			two := create(t, target, cfg)
			kinds := alike(target, names)
			var want int
			for likeness, n := range one.NicknameClashes {
				if n != 16 || two.NicknameClashes[likeness] != 16 {
					t.Errorf("%v: %d and %d names, want 16", likeness, n, two.NicknameClashes[likeness])
				}
				if slices.Contains(kinds, likeness) {
					want += n
				}
			}
			if got := meeting(t, target, one, two, "roles", "nickname"); got != int64(want) || got == 0 {
				t.Errorf("names %d: %d nicknames stand on both servers, want %d, those alike by %v", names, got, want, kinds)
			}
			guilds := 2
			if !slices.Contains(kinds, gameworld.Case) {
				guilds = 1
			}
			if got := meeting(t, target, one, two, "guilds", "name"); got != int64(guilds) || one.GuildClashes != 2 {
				t.Errorf("names %d: %d guilds' names stand on both servers, want %d", names, got, guilds)
			}
			if got := meeting(t, target, one, two, "accounts", "login"); got != 64 {
				t.Errorf("names %d: %d accounts stand on both servers", names, got)
			}
		}
	})
}

func TestWithoutAClashNoNameStandsOnTwoServers(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		cfg := gameworld.Config{Server: 1, Roles: 300, Names: gameworld.FoldedNames}
		one := create(t, target, cfg)
		cfg.Server, cfg.Clash = 2, 0.5 // the clash of one alone is none
		two := create(t, target, cfg)
		for table, name := range map[string]string{"roles": "nickname", "guilds": "name", "accounts": "login"} {
			if n := meeting(t, target, one, two, table, name); n != 0 {
				t.Errorf("%d %s stand on both servers", n, table)
			}
		}
		if n := one.NicknameClashes; len(n) > 0 || one.GuildClashes > 0 {
			t.Errorf("the summary says %v and %d", n, one.GuildClashes)
		}
	})
}

// The names that a server has are those that the functions tell, so that a test can look for them.
func TestTheClashingNamesAreKnownBeforehand(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 3, Roles: 500, Seed: 1, Clash: 0.3})
		nicknames, guilds := texts(t, w.DB, "SELECT nickname FROM roles"), texts(t, w.DB, "SELECT name FROM guilds")
		counted := map[gameworld.Likeness]int{}
		for n := range 150 {
			name, likeness := gameworld.Nickname(3, n)
			counted[likeness]++
			if !slices.Contains(nicknames, name) {
				t.Errorf("nobody is called %q", name)
			}
		}
		if !maps.Equal(counted, w.NicknameClashes) {
			t.Errorf("the summary says %v, want %v", w.NicknameClashes, counted)
		}
		for n := range w.GuildClashes {
			if name, _ := gameworld.GuildName(3, n); !slices.Contains(guilds, name) {
				t.Errorf("no guild is called %q", name)
			}
		}
		if next, _ := gameworld.Nickname(3, 150); slices.Contains(nicknames, next) {
			t.Errorf("%q clashes too, the 151st", next)
		}
	})
}

func TestLongNamesFillTheColumnAndAreTheSameWhenCut(t *testing.T) {
	t.Parallel()
	stems := map[string]int{}
	for n := range 80 {
		name, likeness := gameworld.Nickname(1, n)
		if likeness != gameworld.Long {
			continue
		}
		runes := []rune(name)
		if len(runes) != 16 || len(name) == 16 {
			t.Errorf("%q has %d runes and %d bytes", name, len(runes), len(name))
		}
		stems[string(runes[:13])]++
	}
	if len(stems) != 2 {
		t.Errorf("after the cut they are %v, want two names eight times", stems)
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		length := map[string]string{"sqlite": "length", "postgres": "char_length", "mysql": "char_length"}[target.Dialect]
		w := create(t, target, gameworld.Config{Server: 2, Roles: 200, Clash: 0.2})
		if n := number(t, w.DB, "SELECT count(*) FROM roles WHERE "+length+"(nickname) = 16"); n != 8 {
			t.Errorf("%d nicknames are as long as the column, want 8", n)
		}
	})
}

func TestEveryNameFitsItsColumn(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, server := range []int64{0, 1, 2, 1<<20 - 1} {
		for _, from := range []int{0, 999_990, 49_999_900} {
			for n := from; n < from+100; n++ {
				nickname, _ := gameworld.Nickname(server, n)
				guild, _ := gameworld.GuildName(server, n)
				if utf8.RuneCountInString(nickname) > 16 || utf8.RuneCountInString(guild) > 24 || !utf8.ValidString(nickname) {
					t.Errorf("%q or %q is too long", nickname, guild)
				}
				key := fmt.Sprint(server, strings.ToLower(strings.TrimRight(nickname, " ")))
				if before, found := seen[key]; found && before != n {
					t.Errorf("server %d: %q comes twice, for %d and %d", server, nickname, before, n)
				}
				seen[key] = n
			}
		}
	}
}
