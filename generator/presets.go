package generator

import "time"

// epoch2025 is the epoch of the layouts that this project defines.
func epoch2025() time.Time { return time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Default returns the layout for services. It has 1,024 nodes and 4,096 IDs per millisecond and
// node, and lasts 69.7 years from 2025.
func Default() Layout {
	return Layout{
		Name: "default", Epoch: epoch2025(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"node", 10}}, SequenceBits: 12,
	}
}

// Twitter returns the layout of Twitter's Snowflake. Use it to read and issue IDs that are
// compatible with those of Twitter and of the many systems that copied it. It has 41 bits of
// milliseconds since 2010-11-04T01:42:54.657Z, 5 bits of datacenter, 5 bits of worker and 12 bits
// of sequence, and lasts 69.7 years. Its source is IdWorker.scala in
// github.com/twitter-archive/snowflake, where twepoch is 1288834974657.
func Twitter() Layout {
	return Layout{
		Name: "twitter", Epoch: time.UnixMilli(1288834974657).UTC(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"datacenter", 5}, {"worker", 5}}, SequenceBits: 12,
	}
}

// ShardingSphere returns the layout of Apache ShardingSphere's SNOWFLAKE algorithm. It has 41 bits
// of milliseconds since 2016-11-01 (UTC), 10 bits of worker and 12 bits of sequence, and lasts 69.7
// years. Releases before ShardingSphere's change #38932 computed their epoch in the server's time
// zone. For IDs of such a server, set Epoch to midnight in that time zone.
func ShardingSphere() Layout {
	return Layout{
		Name:  "shardingsphere",
		Epoch: time.Date(2016, time.November, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"worker", 10}}, SequenceBits: 12,
	}
}

// Business returns a layout that names the kind of row in the ID. It has 16 businesses, 4 data
// centers (idc) with 128 machines each, and 128 IDs per millisecond, and lasts 17.4 years from
// 2016.
func Business() Layout {
	return Layout{
		Name:  "business",
		Epoch: time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 39, Node: []Field{{"business", 4}, {"idc", 2}, {"machine", 7}}, SequenceBits: 7,
	}
}

// JavaScript returns a layout of 53 bits, whose IDs are exact as JavaScript numbers. It has 16
// nodes and 256 IDs per millisecond, and lasts 69.7 years from 2025.
func JavaScript() Layout {
	return Layout{
		Name: "javascript", Epoch: epoch2025(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"node", 4}}, SequenceBits: 8,
	}
}

// Game returns the layout for one database per game server, if the databases may be merged later.
// It has 1,048,576 servers and 1,024 IDs per tenth of a second (10,240 per second), and lasts 27.2
// years from 2025. The 20 server bits leave 43 bits for time and sequence, so rate times life is
// 8.8e12 IDs per server, whatever the tick is. The longer tick allows larger bursts and more
// shards.
func Game() Layout {
	return Layout{
		Name: "game", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 33, Node: []Field{{"server", 20}}, SequenceBits: 10,
	}
}

// GameLong is [Game] for long-lived titles, with 512 IDs per tenth of a second for 54.4 years.
func GameLong() Layout {
	return Layout{
		Name: "gamelong", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 34, Node: []Field{{"server", 20}}, SequenceBits: 9,
	}
}

// GameSecond is [Game] for turn-based games, with 4,096 IDs per second for 68.0 years. Its tick is
// a whole second, so the first ID after a start may take up to a second.
func GameSecond() Layout {
	return Layout{
		Name: "gamesecond", Epoch: epoch2025(), Tick: time.Second,
		TimeBits: 31, Node: []Field{{"server", 20}}, SequenceBits: 12,
	}
}

// Game16 is [Game] with 65,536 servers, which is enough for nearly every studio. It has 4,096 IDs
// per tenth of a second for 108.9 years.
func Game16() Layout {
	return Layout{
		Name: "game16", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 35, Node: []Field{{"server", 16}}, SequenceBits: 12,
	}
}

// Game16Fast is [Game16] for busy logs, with 1,024 IDs per hundredth of a second for 43.6 years.
func Game16Fast() Layout {
	return Layout{
		Name: "game16fast", Epoch: epoch2025(), Tick: 10 * time.Millisecond,
		TimeBits: 37, Node: []Field{{"server", 16}}, SequenceBits: 10,
	}
}
