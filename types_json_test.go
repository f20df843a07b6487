package snowflakeplugin_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// badJSON are valid JSON values that are no ID, each with a part of the error it gets.
var badJSON = []struct{ data, why string }{
	{`1.5`, "not a plain whole number"},
	{`1.0`, "not a plain whole number"},
	{`1e3`, "not a plain whole number"},
	{`1E3`, "not a plain whole number"},
	{`-1`, "not a plain whole number"},
	{`-0`, "not a plain whole number"},
	{`9007199254740992`, "may have been rounded"},
	{`9007199254740993`, "may have been rounded"},
	{`1541815603606036480`, "may have been rounded"},
	{`9223372036854775808`, "largest id"},
	{`10000000000000000000`, "may have been rounded"},
	{strings.Repeat("9", 1<<16), "may have been rounded"},
	{`true`, "send a JSON string"},
	{`false`, "send a JSON string"},
	{`{}`, "send a JSON string"},
	{`{"id":"1"}`, "send a JSON string"},
	{`[]`, "send a JSON string"},
	{`["1"]`, "send a JSON string"},
	{`"null"`, `"n" at offset 0`},
	{`"\""`, `"\"" at offset 0`},
	{`"\u0661"`, `"\u0661" at offset 0`},
	{`"\u002d1"`, "sign"},
	{`"\u0031` + strings.Repeat("1", 1<<16) + `"`, "send a JSON string"},
}

// notJSON is what only a direct call of UnmarshalJSON can bring.
var notJSON = []string{
	"", " ", `"`, `"1`, `1"`, "'1'", "007", " 1", "1 ", "nul", "NULL", "1,", `"1" `, `"1"2"`,
	`"\u00"`, `"\x31"`, `"\"`, "\"\\\n\"",
}

func TestJSONIsAStringOfDigits(t *testing.T) {
	type order struct {
		ID    snowflakeplugin.ID
		User  *snowflakeplugin.ID
		Items []snowflakeplugin.ID
		Notes map[snowflakeplugin.ID]string
		Next  snowflakeplugin.ID `json:",omitzero"`
		Last  snowflakeplugin.ID `json:",omitempty"`
	}
	user := snowflakeplugin.ID(7)
	in := order{
		ID:    1541815603606036480,
		User:  &user,
		Items: []snowflakeplugin.ID{0, maxID},
		Notes: map[snowflakeplugin.ID]string{1541815603606036481: "x"},
	}
	data, err := json.Marshal(in)
	const want = `{"ID":"1541815603606036480","User":"7","Items":["0","9223372036854775807"],` +
		`"Notes":{"1541815603606036481":"x"}}`
	if err != nil || string(data) != want {
		t.Fatalf("Marshal = %s, %v\nwant %s", data, err, want)
	}
	var out order
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(out)
	if err != nil || string(again) != want {
		t.Errorf("read back and written again: %s, %v", again, err)
	}
}

func TestJSONReadsStringsAndExactNumbers(t *testing.T) {
	for text, want := range goodTexts {
		id := snowflakeplugin.ID(5)
		if err := json.Unmarshal([]byte(`"`+text+`"`), &id); err != nil || id != want {
			t.Errorf("the string %q left %d, %v; want %d", text, id, err, want)
		}
	}
	for data, want := range map[string]snowflakeplugin.ID{
		"\t12\n":                     12, // encoding/json takes the space away
		`0`:                          0,
		`7`:                          7,
		`9007199254740991`:           1<<53 - 1,
		`"\u0031\u0032"`:             12,
		`"\u0039223372036854775807"`: maxID,
		`"` + strings.Repeat(`\u0030`, 18) + `\u0031"`:    1,
		`"9` + strings.Repeat(`\u0030`, 18) + `"`:         9000000000000000000,
		`"` + strings.Repeat(`\u0030`, 10) + `000000012"`: 12,
	} {
		id := snowflakeplugin.ID(5)
		if err := json.Unmarshal([]byte(data), &id); err != nil || id != want {
			t.Errorf("%s left %d, %v; want %d", data, id, err, want)
		}
	}
}

func TestJSONNullLeavesTheValue(t *testing.T) {
	id := snowflakeplugin.ID(42)
	if err := json.Unmarshal([]byte("null"), &id); err != nil || id != 42 {
		t.Errorf("null left %d, %v", id, err)
	}
	if err := id.UnmarshalJSON([]byte("null")); err != nil || id != 42 {
		t.Errorf("null given to the method left %d, %v", id, err)
	}
	pointer := &id
	if err := json.Unmarshal([]byte("null"), &pointer); err != nil || pointer != nil {
		t.Errorf("null left the pointer at %v, %v", pointer, err)
	}
}

func TestJSONRefusesWhatIsNotAnExactID(t *testing.T) {
	for _, bad := range badJSON {
		t.Run(fmt.Sprintf("%.30s", bad.data), func(t *testing.T) {
			id := snowflakeplugin.ID(42)
			wantInvalid(t, json.Unmarshal([]byte(bad.data), &id), bad.why)
			wantInvalid(t, id.UnmarshalJSON([]byte(bad.data)), bad.why)
			row := struct{ ID snowflakeplugin.ID }{42}
			wantInvalid(t, json.Unmarshal([]byte(`{"ID":`+bad.data+`}`), &row), bad.why)
			if id != 42 || row.ID != 42 {
				t.Errorf("the refused value changed the receiver to %d and %d", id, row.ID)
			}
		})
	}
	for _, bad := range badTexts {
		data, err := json.Marshal(bad.text)
		if err != nil {
			t.Fatal(err)
		}
		id := snowflakeplugin.ID(42)
		if err := json.Unmarshal(data, &id); err == nil || id != 42 {
			t.Errorf("the string %.60s left %d, %v", data, id, err)
		}
	}
}

func TestUnmarshalJSONRefusesWhatIsNotJSON(t *testing.T) {
	for _, bad := range notJSON {
		id := snowflakeplugin.ID(42)
		wantInvalid(t, id.UnmarshalJSON([]byte(bad)), "")
		if id != 42 {
			t.Errorf("%q changed the receiver to %d", bad, id)
		}
	}
}

func TestJSONErrorSaysHowToSendALargeNumber(t *testing.T) {
	var id snowflakeplugin.ID
	err := json.Unmarshal([]byte("9007199254740993"), &id)
	wantInvalid(t, err, `"9007199254740993": a JSON number above 9007199254740991 may have been `+
		`rounded on its way; send a JSON string of 1 to 19 decimal digits`)
}

// The ",string" option makes encoding/json take the quotes away before it calls UnmarshalJSON, so
// a large ID arrives as a bare number. It is refused, and the error names the cause. Under
// GOEXPERIMENT=jsonv2 the quotes stay, and it is read.
func TestJSONStringOptionReadsExactlyOrNamesItself(t *testing.T) {
	type row struct {
		ID snowflakeplugin.ID `json:",string"`
	}
	const id = snowflakeplugin.ID(1541815603606036480)
	data, err := json.Marshal(row{id})
	if err != nil || string(data) != `{"ID":"1541815603606036480"}` {
		t.Fatalf("Marshal = %s, %v", data, err)
	}
	got := row{ID: 42}
	if err := json.Unmarshal(data, &got); err == nil {
		if got.ID != id {
			t.Errorf("read %d without an error", got.ID)
		}
	} else {
		wantInvalid(t, err, `drop ",string" from the json tag`)
		if got.ID != 42 {
			t.Errorf("the refused value changed the receiver to %d", got.ID)
		}
	}
	if err := json.Unmarshal([]byte(`{"ID":"9007199254740991"}`), &got); err != nil ||
		got.ID != 1<<53-1 {
		t.Errorf("an exact number left %d, %v", got.ID, err)
	}
}

func TestNegativeNumbersAreNotWritten(t *testing.T) {
	for _, id := range []snowflakeplugin.ID{-1, math.MinInt64} {
		_, err := json.Marshal(id)
		wantInvalid(t, err, "never negative")
		// encoding/json keeps the text of an error about a key, but does not wrap it.
		if _, err := json.Marshal(map[snowflakeplugin.ID]int{id: 1}); err == nil {
			t.Errorf("%d became a key", id)
		}
		_, err = id.MarshalText()
		wantInvalid(t, err, "never negative")
		buf, err := id.AppendText([]byte("kept"))
		wantInvalid(t, err, "never negative")
		if string(buf) != "kept" {
			t.Errorf("AppendText of %d returned %q", id, buf)
		}
	}
}
