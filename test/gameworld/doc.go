// Package gameworld makes databases of game servers, of any size, to merge in tests, benchmarks and
// the example.
//
// [Create] makes the database of one server: accounts, roles, guilds, items, mail, friends,
// rankings, settings, counters, the world's own row, a ledger of gold and a log of logins. It has
// what makes merging hard:
//
//   - nicknames and guild names that are unique on a server and not among servers, and copies of
//     nicknames in other tables (mail.from_name, rankings.nickname);
//   - a cycle of foreign keys: guilds.leader_id leads to a role, roles.guild_id to a guild;
//   - a reference to the table itself: items.parent_id leads to an item that lies before or after
//     it, whichever;
//   - rows that every server has: settings and counters by name, the row 1 of world, the places of
//     rankings;
//   - a key that the database counts: login_log.id;
//   - keys of two columns: friends and rankings;
//   - sums to conserve: the gold of a role is the sum of its entries in gold_ledger.
//
// The keys come from a generator with the server's number as its node, so keys of two servers never collide.
// Everything else follows from the [Config]: the same Config makes the same rows, except for their keys, on
// every kind of database. Times in columns like created_at follow from the seed as well.
//
// Config.Clash and [Faults] say what servers have in common and what is wrong with one of them. Without them
// no name of a server is a name of another one.
package gameworld
