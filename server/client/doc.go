// Package client takes IDs from replicas of snowflaked. A [Client] is a source for the plugin:
//
//	ids, err := client.New([]string{"http://127.0.0.1:7070", "http://127.0.0.1:7072"})
//	if err != nil {
//		return err
//	}
//	defer ids.Close()
//	err = db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(ids)))
//
// # Two blocks
//
// A client fetches IDs in blocks. When half of a block is used, it fetches the next one in the background,
// so most calls do not wait for the network. A block that is used up in less than half a second doubles the
// next one, up to the most of [WithBlock], and one that lasts for more than a second halves it.
//
// The time in an ID is the time when its block was fetched. So that it stays close to the time of the row,
// a block is dropped when it is older than [WithMaxAge], which is 5 s by default.
//
// # Failover
//
// A client stays with one replica as long as that answers, and begins with one at random. If an attempt
// fails, it asks the next replica at once. It goes on until it has IDs, until the context ends, or until
// [WithMaxWait] has passed. An ID whose answer is lost is lost as well: the next attempt gets others.
//
// IDs of one client are unique, but they increase only within a block: a replica that takes over has
// another node number and a clock of its own.
package client
