package gameworld

import "slices"

// form is what a column holds, whatever a database calls it.
type form int

const (
	formKey   form = iota // a key of a generator
	formAuto              // a key that the database counts
	formInt               // 32 bits
	formBig               // 64 bits
	formText              // a text of limited length
	formName              // the same, compared as Config.Names has it
	formLong              // a text without a limit
	formBool              //
	formReal              // a binary fraction, which every database keeps as it is
	formTime              // with microseconds
	formBytes             // of limited length
)

// column is one column of a table.
type column struct {
	name string
	form form
	size int    // of texts, in runes, and of bytes
	null bool   // whether it may be NULL
	refs string // the table whose id it refers to
}

// table is one table. Rows are made with their values in the order of columns.
type table struct {
	name    string
	columns []column
	key     []string
	unique  [][]string
	index   []string // columns with an index each
}

// The lengths of names, in runes.
const (
	nicknameLength  = 16
	guildNameLength = 24
)

// tables lists all tables, each after those it refers to but for the cycle of roles and guilds.
func tables() []table {
	id := []string{"id"}
	key := column{name: "id", form: formKey}
	created := column{name: "created_at", form: formTime}
	return []table{
		{
			name: "accounts",
			columns: []column{
				key, {name: "login", form: formText, size: 64}, {name: "server_id", form: formKey},
				{name: "recharged", form: formBig}, {name: "banned", form: formBool}, created,
			},
			key: id, unique: [][]string{{"login", "server_id"}},
		},
		{
			name: "guilds",
			columns: []column{
				key, {name: "name", form: formName, size: guildNameLength},
				{name: "leader_id", form: formKey, refs: "roles"}, {name: "funds", form: formBig},
				{name: "notice", form: formLong, null: true}, created,
			},
			key: id, unique: [][]string{{"name"}}, index: []string{"leader_id"},
		},
		{
			name: "roles",
			columns: []column{
				key, {name: "account_id", form: formKey, refs: "accounts"},
				{name: "nickname", form: formName, size: nicknameLength},
				{name: "guild_id", form: formKey, null: true, refs: "guilds"},
				{name: "level", form: formInt}, {name: "gold", form: formBig},
				{name: "face", form: formBytes, size: 16},
				{name: "last_login_at", form: formTime, null: true}, created,
			},
			key: id, unique: [][]string{{"nickname"}}, index: []string{"account_id", "guild_id"},
		},
		{
			name: "items",
			columns: []column{
				key, {name: "role_id", form: formKey, refs: "roles"},
				{name: "parent_id", form: formKey, null: true, refs: "items"},
				{name: "kind", form: formInt}, {name: "amount", form: formInt}, {name: "bound", form: formBool},
				{name: "durability", form: formReal}, {name: "attributes", form: formLong, null: true}, created,
			},
			key: id, index: []string{"role_id", "parent_id"},
		},
		{
			name: "mail",
			columns: []column{
				key, {name: "from_id", form: formKey, null: true, refs: "roles"},
				{name: "to_id", form: formKey, refs: "roles"},
				{name: "from_name", form: formName, size: nicknameLength},
				{name: "title", form: formText, size: 80}, {name: "body", form: formLong},
				{name: "gold", form: formBig}, {name: "opened", form: formBool}, {name: "sent_at", form: formTime},
			},
			key: id, index: []string{"from_id", "to_id"},
		},
		{
			name: "friends",
			columns: []column{
				{name: "role_id", form: formKey, refs: "roles"}, {name: "friend_id", form: formKey, refs: "roles"},
				{name: "closeness", form: formInt}, created,
			},
			key: []string{"role_id", "friend_id"}, index: []string{"friend_id"},
		},
		{
			name: "rankings",
			columns: []column{
				{name: "board", form: formText, size: 16}, {name: "place", form: formInt},
				{name: "role_id", form: formKey, refs: "roles"},
				{name: "nickname", form: formName, size: nicknameLength}, {name: "score", form: formBig},
			},
			key: []string{"board", "place"}, index: []string{"role_id"},
		},
		{
			name: "settings",
			columns: []column{
				{name: "name", form: formText, size: 64}, {name: "value", form: formText, size: 255},
				{name: "updated_at", form: formTime},
			},
			key: []string{"name"},
		},
		{
			name: "counters",
			columns: []column{
				{name: "name", form: formText, size: 64}, {name: "amount", form: formBig},
			},
			key: []string{"name"},
		},
		{
			name: "world",
			columns: []column{
				{name: "id", form: formInt}, {name: "opened_at", form: formTime}, {name: "boss_level", form: formInt},
				{name: "champion_id", form: formKey, null: true, refs: "roles"},
			},
			key: id, index: []string{"champion_id"},
		},
		{
			name: "gold_ledger",
			columns: []column{
				key, {name: "role_id", form: formKey, refs: "roles"}, {name: "amount", form: formBig},
				{name: "reason", form: formText, size: 32}, created,
			},
			key: id, index: []string{"role_id"},
		},
		{
			name: "login_log",
			columns: []column{
				{name: "id", form: formAuto}, {name: "role_id", form: formKey, refs: "roles"},
				{name: "address", form: formText, size: 45}, {name: "at", form: formTime},
			},
			key: id, index: []string{"role_id"},
		},
	}
}

// Tables lists the names of all tables, in the order in which Create fills them.
func Tables() []string {
	var names []string
	for _, t := range tables() {
		names = append(names, t.name)
	}
	return names
}

// referred tells whether another table refers to one.
func referred(all []table, name string) bool {
	return slices.ContainsFunc(all, func(t table) bool {
		return t.name != name && slices.ContainsFunc(t.columns, func(c column) bool { return c.refs == name })
	})
}
