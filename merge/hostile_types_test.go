package merge_test

// oddType is a type of one kind of database, with values that are hard to carry over, as literals.
type oddType struct {
	declared string
	values   []string
}

// oddTypes are the types of the columns of hostile schemas.
func oddTypes(dialect string) []oddType {
	text := []string{"''", "' '", "'a '", "'Zoé'", "'ZOÉ'", "'龍😀'", "'it''s'", "'0'", "'NULL'", "'a\tb'"}
	switch dialect {
	case "postgres":
		return []oddType{
			{"bigint", []string{"9223372036854775807", "-9223372036854775808", "0"}},
			{"smallint", []string{"-32768", "32767"}},
			{"numeric", []string{"0.1000", "123456789012345678901234567890.123", "'NaN'"}},
			{"numeric(20,4)", []string{"1.5", "-9999999999999999.9999"}},
			{"double precision", []string{"0.1", "1e300", "'-0'", "'NaN'", "'Infinity'"}},
			{"real", []string{"0.1", "3.4e38"}},
			{"text", append(text, `E'a\nb\\c'`)},
			{"varchar(30)", text},
			{"char(5)", []string{"'ab'", "''"}},
			{"bytea", []string{`'\x'`, `'\x00ff'`, `'\x5c78'`}},
			{
				"timestamptz",
				[]string{
					"'2025-06-07 08:09:10.123456+03'",
					"'infinity'",
					"'0044-03-15 00:00:00+00 BC'",
					"'12025-01-01 00:00+00'",
				},
			},
			{"timestamp(0)", []string{"'2025-06-07 08:09:10'", "'-infinity'"}},
			{"date", []string{"'2024-02-29'", "'infinity'", "'0044-03-15 BC'"}},
			{
				"time",
				[]string{"'24:00:00'", "'10:11:12.123456'"},
			},
			{"timetz", []string{"'10:11:12.5+03'", "'00:00:00-11:30'"}},
			{"interval", []string{"'1 mon -2 days 03:04:05.6'"}},
			{"boolean", []string{"TRUE", "FALSE"}},
			{
				"jsonb",
				[]string{`'{"b": 1.50, "a": [null, ""]}'`, "'0'", "'null'"},
			},
			{"json", []string{`'{"a":1,  "a":2}'`}},
			{
				"uuid",
				[]string{"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"},
			},
			{"integer[]", []string{"'{1,NULL,3}'", "'{}'", "'{{1},{2}}'"}},
			{"text[]", []string{`'{"a,b",NULL,""}'`}},
			{"inet", []string{"'10.0.0.1/8'"}},
		}
	case "mysql":
		return []oddType{
			{
				"BIGINT UNSIGNED",
				[]string{"18446744073709551615", "0"},
			},
			{"INT", []string{"-2147483648", "2147483647"}},
			{
				"DECIMAL(30,10)",
				[]string{"12345678901234567890.0000000001", "-0.5"},
			},
			{"DOUBLE", []string{"0.1", "1e300"}},
			{"FLOAT", []string{"0.1", "16777216"}},
			{"VARCHAR(40) CHARACTER SET utf8mb4", text},
			{"VARCHAR(40) CHARACTER SET latin1", []string{"'Zoé'", "'a '"}},
			{"CHAR(5)", []string{"'ab'", "''"}},
			{"LONGTEXT CHARACTER SET utf8mb4", text},
			{"VARBINARY(10)", []string{"X''", "X'00ff'", "X'2020'"}},
			{
				"LONGBLOB",
				[]string{"X''", "X'5c00'"},
			},
			{"DATETIME(6)", []string{"'2025-06-07 08:09:10.123456'", "'1000-01-01 00:00:00'"}},
			{
				"DATETIME",
				[]string{"'9999-12-31 23:59:59'"},
			},
			{"TIMESTAMP(3) NULL", []string{"'2025-06-07 08:09:10.123'"}},
			{
				"DATE",
				[]string{"'9999-12-31'", "'2024-02-29'"},
			},
			{"TIME(6)", []string{"'838:59:59'", "'-00:00:01.5'"}},
			{"YEAR", []string{"1901", "2155"}},
			{"ENUM('z','a','M','')", []string{"'z'", "'M'", "''"}},
			{
				"SET('x','b','a')",
				[]string{"'a,x'", "''"},
			},
			{"JSON", []string{`'{"a": 1.50, "b": [1, null]}'`, "'[]'"}},
			{"BIT(8)", []string{"b'10000001'", "b'0'"}},
			{"TINYINT(1)", []string{"0", "1", "-5"}},
		}
	}
	return []oddType{
		{"INTEGER", []string{"9223372036854775807", "-9223372036854775808", "'text'", "1.5", "X'00'"}},
		{
			"TEXT",
			append(text, "X'ff00'", "char(0) || 'x'"),
		},
		{"VARCHAR(30)", text},
		{"REAL", []string{"0.1", "1e300", "-0.0", "'x'"}},
		{
			"BLOB",
			[]string{"X''", "X'00ff'", "'text'", "5"},
		},
		{"DECIMAL(12,4)", []string{"1.5", "12345678.9", "'1e'"}},
		{
			"DATETIME",
			[]string{
				"'2025-06-07 08:09:10.123456+03:00'",
				"1700000000",
				"1700000000123",
				"'2025-06-07T08:09:10Z'",
				"''",
			},
		},
		{
			"DATE",
			[]string{"'0000-00-00'", "'2024-02-29'", "20240229"},
		},
		{"BOOLEAN", []string{"0", "1", "'true'", "7"}},
		{"JSON", []string{`'{"a":1.50}'`, "'no json'"}},
		{"", []string{"1", "'1'", "1.0", "X'31'"}},
	}
}
