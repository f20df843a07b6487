package generator

import "time"

// epoch2025 is the epoch of the layouts that are this project's own.
func epoch2025() time.Time { return time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Default returns the layout for services: 1,024 nodes, 4,096 IDs a millisecond and node, from
// 2025 for 69.7 years.
func Default() Layout {
	return Layout{
		Name: "default", Epoch: epoch2025(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"node", 10}}, SequenceBits: 12,
	}
}

// Twitter returns the layout of Twitter's Snowflake, for reading and making IDs that fit beside
// those of Twitter and of the many systems that copied it: 41 bits of milliseconds since
// 2010-11-04T01:42:54.657Z, 5 bits of datacenter, 5 of worker, 12 of sequence; 69.7 years.
// Source: IdWorker.scala in github.com/twitter-archive/snowflake, whose twepoch is 1288834974657.
func Twitter() Layout {
	return Layout{
		Name: "twitter", Epoch: time.UnixMilli(1288834974657).UTC(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"datacenter", 5}, {"worker", 5}}, SequenceBits: 12,
	}
}

// ShardingSphere returns the layout of Apache ShardingSphere's SNOWFLAKE algorithm: 41 bits of
// milliseconds since 2016-11-01 (UTC), 10 of worker, 12 of sequence; 69.7 years. Releases before
// ShardingSphere's change #38932 computed their epoch in the server's time zone: for IDs of such
// a server set Epoch to midnight there.
func ShardingSphere() Layout {
	return Layout{
		Name:  "shardingsphere",
		Epoch: time.Date(2016, time.November, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"worker", 10}}, SequenceBits: 12,
	}
}

// Business returns a layout that names the kind of row in the ID: 16 businesses, 4 data centers
// (idc), 128 machines in each, 128 IDs a millisecond, from 2016 for 17.4 years.
func Business() Layout {
	return Layout{
		Name:  "business",
		Epoch: time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 39, Node: []Field{{"business", 4}, {"idc", 2}, {"machine", 7}}, SequenceBits: 7,
	}
}

// JavaScript returns a layout of 53 bits, whose IDs are exact as JavaScript numbers: 16 nodes,
// 256 IDs a millisecond, from 2025 for 69.7 years.
func JavaScript() Layout {
	return Layout{
		Name: "javascript", Epoch: epoch2025(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"node", 4}}, SequenceBits: 8,
	}
}

// Game returns the layout for one database a game server, to be merged later: 1,048,576 servers,
// 1,024 IDs a tenth of a second (10,240 a second), from 2025 for 27.2 years. With 20 bits of
// server, 43 are left for time and sequence: rate times life is 8.8e12 IDs a server whatever the
// tick. The longer tick buys larger bursts and more shards.
func Game() Layout {
	return Layout{
		Name: "game", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 33, Node: []Field{{"server", 20}}, SequenceBits: 10,
	}
}

// GameLong is [Game] for titles that live long: 512 IDs a tenth of a second, 54.4 years.
func GameLong() Layout {
	return Layout{
		Name: "gamelong", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 34, Node: []Field{{"server", 20}}, SequenceBits: 9,
	}
}

// GameSecond is [Game] for turn-based play: 4,096 IDs a second, 68.0 years. Its tick is a whole
// second, so the first ID after a start may take up to a second.
func GameSecond() Layout {
	return Layout{
		Name: "gamesecond", Epoch: epoch2025(), Tick: time.Second,
		TimeBits: 31, Node: []Field{{"server", 20}}, SequenceBits: 12,
	}
}

// Game16 is [Game] with 65,536 servers, which is enough for nearly every studio: 4,096 IDs a
// tenth of a second, 108.9 years.
func Game16() Layout {
	return Layout{
		Name: "game16", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 35, Node: []Field{{"server", 16}}, SequenceBits: 12,
	}
}

// Game16Fast is [Game16] for busy logs: 1,024 IDs a hundredth of a second, 43.6 years.
func Game16Fast() Layout {
	return Layout{
		Name: "game16fast", Epoch: epoch2025(), Tick: 10 * time.Millisecond,
		TimeBits: 37, Node: []Field{{"server", 16}}, SequenceBits: 10,
	}
}
