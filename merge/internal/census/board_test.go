package census_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// board is what a server has of a board on which members write. Half of its names say little, its keys begin at 1,
// and some members and posts were deleted.
func board(target dbtest.Target, server, members, posts int) []string {
	key := func(name string) string { return strings.Replace(countedKey(target), "id ", name+" ", 1) }
	statements := []string{
		"CREATE TABLE members (" + key("uid") + ", grade INTEGER, style_group INTEGER, member_no INTEGER)",
		"CREATE TABLE usergroups (" + key("gid") + ", shade INTEGER)",
		"CREATE TABLE letters (" + key("lid") + ", weight INTEGER)",
		"CREATE TABLE topicprefixes (" + key("pid") + ", color INTEGER)",
		"CREATE TABLE posts (" + key("pid") + ", prefix INTEGER, likes INTEGER, adduid INTEGER, location INTEGER)",
		"CREATE TABLE stations (" + key("sid") + ", size INTEGER)",
		"CREATE TABLE options (uid INTEGER NOT NULL PRIMARY KEY, shown INTEGER)",
		"CREATE TABLE accounts (" + key("aid") + ", count INTEGER)", "CREATE TABLE piles (" + key("hid") + ", count INTEGER, recount INTEGER)",
		"CREATE TABLE news (" + key("nid") + ", uid INTEGER)",
		"CREATE TABLE bans (" + key("bid") + ", issuedby INTEGER, oldgroup INTEGER, referrer INTEGER, standby INTEGER)",
		"CREATE TABLE moderators (" + key("mid") + ", id INTEGER, is_group INTEGER)",
		"CREATE TABLE reports (" + key("rid") + ", id INTEGER, class INTEGER, type VARCHAR(20))",
		"CREATE TABLE seen (uid INTEGER NOT NULL, pid INTEGER NOT NULL, PRIMARY KEY (uid, pid))",
	}
	add := func(format string, values ...any) {
		statements = append(statements, fmt.Sprintf("INSERT INTO "+format, values...))
	}
	some := func(n, of int) int { return 1 + pick(server*1000+n, of) }
	for n := 1; n <= members; n++ {
		if n == 1 || pick(server+7*n, 5) > 0 {
			add("members (uid, grade, style_group, member_no) VALUES (%d, %d, 0, 0)", n, some(n, 9))
		}
		add("letters (lid, weight) VALUES (%d, %d)", n, some(n, 400))
		add("letters (lid, weight) VALUES (%d, %d)", members+n, some(n, 400))
	}
	for n := 1; n <= 8+server; n++ {
		add("usergroups (gid, shade) VALUES (%d, %d)", n, some(n, 900))
		add("topicprefixes (pid, color) VALUES (%d, %d)", n, some(n, 900))
		add("stations (sid, size) VALUES (%d, %d)", n, some(n, 900))
		add("accounts (aid, count) VALUES (%d, %d)", n, some(n, 900))
		add("piles (hid, count, recount) VALUES (%d, 1, %d)", n, some(n, 5))
	}
	for n := 1; n <= posts; n++ {
		if pick(server+5*n, 10) > 0 {
			add("posts (pid, prefix, likes, adduid, location) VALUES (%d, %d, %d, %d, %d)", n, n%3/2*(1+n%(8+server)),
				some(n, 40), some(n, members), 1+n%4)
		}
	}
	add("options VALUES (%d, 1)", 1)
	for _, n := range []int{1, 2, 3} {
		add("news (nid, uid) VALUES (%d, 1)", n)
		add("bans (bid, issuedby, oldgroup, referrer, standby) VALUES (%d, %d, %d, %d, 1)", n, 11*server+n, 5+server, 7*server+n)
		add("moderators (mid, id, is_group) VALUES (%d, %d, %d)", n, 9*server+n*2, n%2)
	}
	for n := range 60 {
		add("reports (rid, id, class, type) VALUES (%d, %d, %d, '%s')", n+1, some(n, posts), 1+n%9, []string{"post", "post", "profile"}[n%3])
	}
	return append(statements, "INSERT INTO seen SELECT uid, pid FROM members JOIN posts ON pid % 50 = uid % 50 WHERE adduid > 0")
}

func TestNamesThatAreNotWrittenAsOthersWriteThemAreUnderstood(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		found := taken(t, target, board(target, 1, 200, 600), board(target, 2, 150, 450))
		expect(t, found, map[string]string{
			"bans.issuedby": "plain, perhaps members.uid", "bans.oldgroup": "plain, perhaps usergroups.gid",
			"bans.referrer": "plain, perhaps members.uid", "bans.standby": "plain",
			"moderators.id": "plain, perhaps posts.pid", "moderators.is_group": "plain", "reports.id": "perhaps posts.pid when type = 'post'",
			"news.uid": "perhaps members.uid", "posts.prefix": "plain, perhaps topicprefixes.pid when prefix <> 0",
			"posts.adduid": "perhaps members.uid", "posts.location": "plain", "posts.likes": "plain",
			"members.grade": "plain", "letters.weight": "plain", "reports.rid": "plain", "reports.class": "plain",
			"piles.count": "plain", "piles.recount": "plain"})
	})
}

// Of the friends in the lists of members a third was deleted, the keys begin at 1 without gaps, and each of a few
// tools is for some groups.
func TestListsOfWhichAThirdWasDeletedAreAskedAboutAndShortOnesAreKnown(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, members int) []string {
			statements := []string{"CREATE TABLE members (" + countedKey(target) + ", friends VARCHAR(99), damage VARCHAR(99))",
				"CREATE TABLE tools (" + countedKey(target) + ", sorts VARCHAR(99))",
				"CREATE TABLE sorts (" + countedKey(target) + ", size INTEGER)"}
			for n := 1; n <= members; n++ {
				friends, damage := "", ""
				for k := range n%4/2 + 1 {
					friends += fmt.Sprintf(",%d", 1+pick(seed+n+1000*k, members))
					damage += fmt.Sprintf(",%d", 1+pick(seed+n+3000*k, 90))
				}
				if pick(seed+7*n, 3) > 0 || n == members {
					statements = append(statements, fmt.Sprintf("INSERT INTO members (id, friends, damage) VALUES (%d, '%s', '%s')",
						n, friends[1:], damage[1:]))
				}
			}
			for n := 1; n <= 9; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO sorts (id, size) VALUES (%d, %d)", n, 500+seed+n))
			}
			return append(statements, "INSERT INTO tools (id, sorts) VALUES (1, '4,6')")
		}
		all := []*sqldb.DB{opened(t, target, "s1", server(1, 300)), opened(t, target, "s2", server(5000, 200))}
		findings, err := census.Take(t.Context(), all, minGenerated, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		friends, known := "", false
		for _, f := range findings {
			switch {
			case f.String() == "members.friends" && f.Verdict == census.Possible:
				friends = f.As + " of " + f.Parent.String()
			case f.String() == "members.damage" && f.Verdict == census.Possible:
				t.Errorf("it asks about %+v", f)
			case f.String() == "tools.sorts":
				known = known || f.Hits[census.Column{Table: "sorts", Name: "id"}] != ""
			}
		}
		if friends != "list , of members.id" || !known {
			t.Errorf("the friends are %q, and of the tools it is %v that they are known", friends, known)
		}
	})
}
