package gameworld

// Summary says what a server has, to check a merge against: what several servers have together is
// the sum of theirs.
type Summary struct {
	// Server is the number of the server.
	Server int64
	// Rows are the rows of each table, by its name.
	Rows map[string]int64

	// Gold is the sum of roles.gold, and Ledger that of gold_ledger.amount, which is the same unless
	// the table is missing.
	Gold, Ledger int64
	// Recharged is the sum of accounts.recharged.
	Recharged int64
	// Funds is the sum of guilds.funds.
	Funds int64
	// Counters are the rows of counters.
	Counters map[string]int64

	// Orphans is how many rows refer to nothing, by table.column.
	Orphans map[string]int
}

func newSummary(c Config) *Summary {
	return &Summary{
		Server:   c.Server,
		Rows:     map[string]int64{},
		Counters: map[string]int64{},
		Orphans:  map[string]int{},
	}
}

// Total is the number of rows in all tables.
func (s Summary) Total() (rows int64) {
	for _, n := range s.Rows {
		rows += n
	}
	return rows
}
