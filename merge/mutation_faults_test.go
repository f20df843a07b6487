package merge_test

// fault is something wrong in a target. The statements are those of all databases, or of one.
type fault struct {
	name  string
	found string // what the report of Verify calls the comparison that finds it
	harm  []string
	on    string // the only dialect on which it exists
}

// faults are put into a merged target, one by one. {s1:7} is the seventh ID of server 1, {+a,b} joins texts.
var faults = []fault{
	{name: "a row is dropped", found: "rows balance", harm: []string{"DELETE FROM mail WHERE id = {s2:53}"}},
	{
		name:  "all rows of a server are dropped",
		found: "rows",
		harm:  []string{"DELETE FROM slots WHERE item LIKE 'item2%'"},
	},
	{
		name:  "the first row of a table is dropped",
		found: "rows",
		harm:  []string{"DELETE FROM mail WHERE id = {s1:51}"},
	},
	{
		name:  "a row without a key is doubled",
		found: "rows",
		harm:  []string{"INSERT INTO logs VALUES (1, 'server 1')"},
	},
	{
		name:  "a row is doubled under another key",
		found: "rows",
		harm: []string{
			"INSERT INTO mail SELECT {s1:99}, to_id, from_id, from_name, pet_id FROM mail WHERE id = {s1:52}",
		},
	},
	{
		name:  "one row is doubled, another dropped",
		found: "checksum",
		harm: []string{
			"INSERT INTO logs VALUES (0, 'server 1')",
			"DELETE FROM logs WHERE n = 3 AND w = 'server 2'",
		},
	},
	{name: "a row of a server that is not merged", found: "rows",
		harm: []string{"INSERT INTO players (id, uid, nickname) VALUES ({s9:1}, 'u9', 'nine')"}},
	{
		name:  "two rows exchange their keys",
		found: "checksum",
		harm: []string{"UPDATE mail SET id = 1 WHERE id = {s1:52}",
			"UPDATE mail SET id = {s1:52} WHERE id = {s1:53}", "UPDATE mail SET id = {s1:53} WHERE id = 1"},
	},
	{
		name:  "a text is cut",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = 'plain' WHERE uid = 'u1-4'"},
	},
	{
		name:  "a text changes its case",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = UPPER(story) WHERE uid = 'u2-4'"},
	},
	{
		name:  "an accent is lost",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = 'Zoe and more' WHERE uid = 'u1-1'"},
	},
	{name: "an accent is composed in another way", found: "checksum",
		harm: []string{"UPDATE players SET story = 'Zoe\u0301 and more' WHERE uid = 'u1-1'"}},
	{
		name:  "a blank is added at the end",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = 'plain text ' WHERE uid = 'u1-4'"},
	},
	{
		name:  "blanks at the end are lost",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = 'tail' WHERE uid = 'u2-3'"},
	},
	{name: "a letter of three bytes becomes a question mark", found: "checksum",
		harm: []string{"UPDATE players SET story = '? is here' WHERE uid = 'u1-5'"}},
	{
		name:  "NULL in place of an empty text",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = NULL WHERE uid = 'u1-2'"},
	},
	{
		name:  "an empty text in place of NULL",
		found: "checksum",
		harm:  []string{"UPDATE players SET story = '' WHERE uid = 'u1-9'"},
	},
	{
		name:  "0 in place of NULL",
		found: "checksum",
		harm:  []string{"UPDATE players SET bonus = 0 WHERE uid = 'u2-9'"},
	},
	{
		name:  "a number is off by one",
		found: "checksum sum",
		harm:  []string{"UPDATE players SET gold = gold + 1 WHERE uid = 'u1-3'"},
	},
	{
		name:  "a sign is lost",
		found: "checksum",
		harm:  []string{"UPDATE players SET bonus = -bonus WHERE uid = 'u1-3'"},
	},
	{
		name:  "a large number went through a float",
		found: "checksum",
		harm: []string{
			"UPDATE players SET gold = (gold / 4096) * 4096 WHERE uid = 'u1-1' AND 1 = 1",
			"UPDATE players SET gold = 9007199254740000 WHERE uid = 'u1-1'",
		},
	},
	{
		name:  "the sum is kept and rows are wrong",
		found: "checksum",
		harm: []string{"UPDATE players SET gold = gold + 5 WHERE uid = 'u1-3'",
			"UPDATE players SET gold = gold - 5 WHERE uid = 'u1-4'"},
	},
	{
		name:  "two rows exchange a value",
		found: "checksum",
		harm: []string{"UPDATE slots SET item = 'item1-2' WHERE item = 'item1-1' AND slot = 1",
			"UPDATE slots SET item = 'item1-1' WHERE slot = 2 AND item = 'item1-2'"},
	},
	{
		name:  "two columns are exchanged",
		found: "checksum",
		harm:  []string{"UPDATE players SET gold = -200, bonus = 9007199254738992 WHERE uid = 'u1-2'"},
	},
	{
		name:  "a float is rounded",
		found: "checksum",
		harm:  []string{"UPDATE players SET ratio = 3.1234567 WHERE uid = 'u1-3'"},
	},
	{
		name:  "a decimal is rounded",
		found: "checksum",
		harm:  []string{"UPDATE players SET price = 3.12 WHERE uid = 'u1-3'"},
	},
	{
		name:  "the zone of a time is lost",
		found: "checksum",
		harm:  []string{"UPDATE players SET at = '2025-06-03 11:09:10.123456' WHERE uid = 'u1-3'"},
	},
	{
		name:  "the fraction of a second is cut",
		found: "checksum",
		harm:  []string{"UPDATE players SET at = '2025-06-03 08:09:10' WHERE uid = 'u2-3'"},
	},
	{
		name:  "microseconds become milliseconds",
		found: "checksum",
		harm:  []string{"UPDATE players SET at = '2025-06-03 08:09:10.123' WHERE uid = 'u2-3'"},
	},
	{
		name:  "a date is a day off",
		found: "checksum",
		harm:  []string{"UPDATE players SET day = '2025-06-04' WHERE uid = 'u2-3'"},
	},
	{
		name:  "a time of day is cut",
		found: "checksum",
		harm:  []string{"UPDATE players SET clock = '10:11:12' WHERE uid = 'u2-3'"},
	},
	{
		name:  "a boolean is turned",
		found: "checksum",
		harm:  []string{"UPDATE players SET yes = {false} WHERE uid = 'u1-2'"},
	},
	{
		name:  "a value in JSON changes",
		found: "checksum",
		harm:  []string{`UPDATE players SET props = '{"a": 4, "b": [1, 2]}' WHERE uid = 'u1-2'`},
	},
	{name: "an array in JSON changes its order", found: "checksum",
		harm: []string{`UPDATE players SET props = '{"a": 2, "b": [2, 1]}' WHERE uid = 'u1-2'`}},
	{
		name:  "a key in JSON is lost",
		found: "checksum",
		harm:  []string{`UPDATE players SET props = '{"a": 2}' WHERE uid = 'u1-2'`},
	},
	{
		name:  "bytes are cut",
		found: "checksum",
		harm:  []string{"UPDATE players SET raw = {short} WHERE uid = 'u1-2'"},
	},
	{
		name:  "a byte changes",
		found: "checksum",
		harm:  []string{"UPDATE players SET raw = {other} WHERE uid = 'u1-2'"},
	},
	{name: "a reference leads to another row of the same server", found: "checksum parents",
		harm: []string{"UPDATE mail SET to_id = {s1:3} WHERE id = {s1:52}"}},
	{
		name:  "children of two servers exchange their parents",
		found: "checksum parents",
		harm: []string{
			"UPDATE mail SET to_id = {s2:2} WHERE id = {s1:52}",
			"UPDATE mail SET to_id = {s1:2} WHERE id = {s2:52}",
		},
	},
	{
		name:  "a reference leads to nothing",
		found: "orphans",
		harm:  []string{"UPDATE mail SET to_id = {s1:77} WHERE id = {s1:52}"},
	},
	{
		name:  "a reference is lost",
		found: "checksum parents",
		harm:  []string{"UPDATE mail SET to_id = NULL WHERE id = {s1:52}"},
	},
	{name: "a reference does not follow a renumbered key", found: "parents",
		harm: []string{"UPDATE mail SET pet_id = pet_id - 6 WHERE id > 0 AND pet_id > 6"}},
	{name: "one reference does not follow a renumbered key", found: "parents",
		harm: []string{"UPDATE mail SET pet_id = 2 WHERE id = {s2:52}"}},
	{
		name:  "renumbered keys are shifted by one more, their children are not",
		found: "parents",
		harm: []string{
			"UPDATE pets SET id = id + 100 WHERE name LIKE 'pet2%'",
			"UPDATE pets SET id = id - 99 WHERE name LIKE 'pet2%'",
		},
	},
	{
		name:  "the contents of two parents are exchanged",
		found: "parents",
		harm: []string{
			"UPDATE pets SET name = 'pet' WHERE name = 'pet1-2'",
			"UPDATE pets SET name = 'pet1-2' WHERE name = 'pet2-2'",
			"UPDATE pets SET name = 'pet2-2' WHERE name = 'pet'",
		},
	},
	{
		name:  "a row loses its new name",
		found: "checksum",
		harm:  []string{"UPDATE players SET nickname = 'nobody' WHERE uid = 'u2-1'"},
	},
	{name: "a row has another new name than the list says", found: "checksum",
		harm: []string{"UPDATE players SET nickname = 'Falcon.s2-2' WHERE uid = 'u2-1'"}},
	{
		name:  "the wrong row keeps the name",
		found: "keeper",
		harm: []string{
			"UPDATE players SET nickname = 'tmp' WHERE uid = 'u1-1'",
			"UPDATE players SET nickname = 'Falcon' WHERE uid = 'u2-1'",
			"UPDATE players SET nickname = 'Falcon.s1' WHERE uid = 'u1-1'",
			"UPDATE merge_renames SET server = 1, row_key = '{s1:1}', new_key = '{s1:1}', new_name = 'Falcon.s1' WHERE row_key = '{s2:1}'",
		},
	},
	{
		name:  "a row is renamed without need",
		found: "keeper",
		harm: []string{
			"UPDATE players SET nickname = 'own1.s1' WHERE uid = 'u1-3'",
			"INSERT INTO merge_renames (tbl, server, row_key, col, old_name, new_name, new_key) VALUES ('players', 1, '{s1:3}', 'nickname', 'own1', 'own1.s1', '{s1:3}')",
		},
	},
	{
		name:  "a new name is not of the form that the plan says",
		found: "names",
		harm: []string{"UPDATE players SET nickname = 'Eagle.s2' WHERE uid = 'u2-1'",
			"UPDATE merge_renames SET new_name = 'Eagle.s2' WHERE row_key = '{s2:1}'"},
	},
	{
		name:  "the list of renames lacks a row",
		found: "checksum",
		harm:  []string{"DELETE FROM merge_renames WHERE row_key = '{s2:1}'"},
	},
	{
		name:  "the list of renames has a row too many",
		found: "names",
		harm: []string{"INSERT INTO merge_renames (tbl, server, row_key, col, " +
			"old_name, new_name, new_key) VALUES ('players', 1, '{s1:44}', 'nickname', 'own1', 'own1.s1', '{s1:44}')"},
	},
	{name: "the list of renames has another old name", found: "names",
		harm: []string{"UPDATE merge_renames SET old_name = 'Falcon0' WHERE row_key = '{s2:1}'"}},
	{
		name:  "a copy of a name keeps the old one",
		found: "checksum",
		harm:  []string{"UPDATE mail SET from_name = 'Falcon' WHERE id = {s2:52}"},
	},
	{name: "a copy of a name of another server changes", found: "checksum",
		harm: []string{"UPDATE mail SET from_name = 'Falcon.s2' WHERE id = {s1:52}"}},
	{
		name:  "a total is too low",
		found: "totals",
		harm:  []string{"UPDATE counters SET amount = amount - 1 WHERE name = 'open'"},
	},
	{
		name:  "two totals are wrong by as much",
		found: "totals",
		harm: []string{"UPDATE counters SET amount = amount - 1 WHERE name = 'open'",
			"UPDATE counters SET amount = amount + 1 WHERE name = 'rate'"},
	},
	{
		name:  "the greatest value is that of the first server",
		found: "totals",
		harm:  []string{"UPDATE counters SET best = 1 WHERE name = 'open'"},
	},
	{name: "another column of a total is that of the second server", found: "checksum",
		harm: []string{"UPDATE counters SET note = 'of 2' WHERE name = 'open'"}},
	{
		name:  "the row of the second server stays",
		found: "rows",
		harm:  []string{"UPDATE settings SET value = 'of 2' WHERE name = 'open'"},
	},
	{
		name:  "a value that no server has",
		found: "rows",
		harm:  []string{"UPDATE settings SET value = 'of 3' WHERE name = 'open'"},
	},
	{
		name:  "the older row stays",
		found: "rows",
		harm:  []string{"UPDATE world SET opened = 11, boss = 'boss 1' WHERE id = 1"},
	},
	{
		name:  "the newest row with a column of the older",
		found: "rows",
		harm:  []string{"UPDATE world SET boss = 'boss 1' WHERE id = 1"},
	},
	{name: "a setting is lost", found: "rows balance", harm: []string{"DELETE FROM settings WHERE name = 'rate'"}},
	{
		name:  "a setting of no server",
		found: "rows",
		harm:  []string{"INSERT INTO settings VALUES ('new', '1')"},
	},
	{name: "what a dropped row had goes to another account", found: "checksum",
		harm: []string{"UPDATE owned SET account_id = {s1:22} WHERE id = {s2:81}"}},
	{
		name:  "what a dropped row had stays with it",
		found: "orphans",
		harm:  []string{"UPDATE owned SET account_id = {s2:21} WHERE id = {s2:81}"},
	},
	{name: "an account that became another is there too", found: "rows",
		harm: []string{"INSERT INTO accounts VALUES ({s2:21}, 'ann2', 21)"}},
	{
		name:  "a table that is computed anew has rows",
		found: "empty",
		harm:  []string{"INSERT INTO rankings VALUES (1, 1)"},
	},
	{
		name:  "a sequence is set back",
		found: "counter",
		on:    "postgres",
		harm:  []string{"SELECT setval('pets_id_seq', 3)"},
	},
}
