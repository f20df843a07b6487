package snowflakeplugin_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// badJSON are valid JSON values that are not IDs, each with a part of its error.
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

// notJSON are inputs that only a direct call of UnmarshalJSON can pass.
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
		"\t12\n":                     12, // encoding/json removes the space
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

// The option ",string" makes encoding/json remove the quotes before it calls UnmarshalJSON, so a
// large ID arrives as a number without quotes. It is refused. The error goes to clients, who know
// nothing of tags. With GOEXPERIMENT=jsonv2 the quotes are kept and the ID is read.
func TestJSONStringOptionReadsExactlyOrIsRefused(t *testing.T) {
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
		wantInvalid(t, err, "send a JSON string")
		if strings.Contains(err.Error(), "tag") {
			t.Errorf("the error tells a client about a tag: %v", err)
		}
		if got.ID != 42 {
			t.Errorf("the refused value changed the receiver to %d", got.ID)
		}
	}
	if err := json.Unmarshal([]byte(`{"ID":"9007199254740991"}`), &got); err != nil ||
		got.ID != 1<<53-1 {
		t.Errorf("an exact number left %d, %v", got.ID, err)
	}
}

// gin and echo look for this method. Without it, gin stores "-5" in an ID, because its kind is int64.
func TestAParameterOfAnAddressIsReadAsText(t *testing.T) {
	var id snowflakeplugin.ID
	binder, ok := any(&id).(interface{ UnmarshalParam(param string) error })
	if !ok {
		t.Fatal("an ID has no method UnmarshalParam")
	}
	if err := binder.UnmarshalParam("1541815603606036480"); err != nil || id != 1541815603606036480 {
		t.Errorf("read %d, %v", id, err)
	}
	for _, bad := range []string{"-5", "", "+5", " 5", "5.0", "0x5", "5e3", "9223372036854775808", "five"} {
		wantInvalid(t, binder.UnmarshalParam(bad), "")
		if id != 1541815603606036480 {
			t.Fatalf("%q changed the receiver to %d", bad, id)
		}
	}
	var none *snowflakeplugin.ID
	if err := any(none).(interface{ UnmarshalParam(param string) error }).UnmarshalParam("5"); err == nil {
		t.Error("a nil *ID was read into")
	}
}

func TestNegativeNumbersAreNotWritten(t *testing.T) {
	for _, id := range []snowflakeplugin.ID{-1, math.MinInt64} {
		_, err := json.Marshal(id)
		wantInvalid(t, err, "never negative")
		// encoding/json keeps the text of an error about a key but does not wrap the error.
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

func TestTextReadsBack(t *testing.T) {
	for text, want := range goodTexts {
		id := snowflakeplugin.ID(5)
		if err := id.UnmarshalText([]byte(text)); err != nil || id != want {
			t.Errorf("UnmarshalText(%q) left %d, %v; want %d", text, id, err, want)
		}
		out, err := id.MarshalText()
		if err != nil || string(out) != id.String() {
			t.Errorf("MarshalText of %d = %q, %v", id, out, err)
		}
		out, err = id.AppendText([]byte("id="))
		if err != nil || string(out) != "id="+id.String() {
			t.Errorf("AppendText of %d = %q, %v", id, out, err)
		}
	}
}

func TestUnmarshalTextRefusesBadText(t *testing.T) {
	for _, bad := range badTexts {
		id := snowflakeplugin.ID(42)
		wantInvalid(t, id.UnmarshalText([]byte(bad.text)), bad.why)
		if id != 42 {
			t.Errorf("%.40q changed the receiver to %d", bad.text, id)
		}
	}
	id := snowflakeplugin.ID(42)
	wantInvalid(t, id.UnmarshalText(nil), "empty")
}

func TestMapKeysAreDigits(t *testing.T) {
	const text = `{"1541815603606036480":1,"9007199254740993":2}`
	var m map[snowflakeplugin.ID]int
	if err := json.Unmarshal([]byte(text), &m); err != nil || m[9007199254740993] != 2 {
		t.Fatalf("read %v, %v", m, err)
	}
	if out, err := json.Marshal(m); err != nil || string(out) != text {
		t.Errorf("wrote %s, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"1.5":1}`), &m); err == nil {
		t.Errorf("a fraction became a key: %v", m)
	}
}

func TestXMLHoldsAnIDInAttributesAndElements(t *testing.T) {
	type order struct {
		XMLName xml.Name             `xml:"order"`
		ID      snowflakeplugin.ID   `xml:"id,attr"`
		User    *snowflakeplugin.ID  `xml:"user,attr"`
		Items   []snowflakeplugin.ID `xml:"item"`
	}
	user := snowflakeplugin.ID(7)
	in := order{ID: maxID, User: &user, Items: []snowflakeplugin.ID{1, 2}}
	const want = `<order id="9223372036854775807" user="7"><item>1</item><item>2</item></order>`
	data, err := xml.Marshal(in)
	if err != nil || string(data) != want {
		t.Fatalf("Marshal = %s, %v", data, err)
	}
	var out order
	if err := xml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if out.ID != maxID || *out.User != 7 || len(out.Items) != 2 || out.Items[1] != 2 {
		t.Errorf("read back %+v", out)
	}
	wantInvalid(t, xml.Unmarshal([]byte(`<order id="1.5"/>`), &out), `"." at offset 1`)
}

func TestURLQueryCarriesAnID(t *testing.T) {
	id := snowflakeplugin.ID(1541815603606036480)
	query := url.Values{"id": {id.String()}}.Encode()
	if query != "id=1541815603606036480" {
		t.Errorf("query = %s", query)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := snowflakeplugin.ParseID(values.Get("id")); err != nil || got != id {
		t.Errorf("read back %d, %v", got, err)
	}
	_, err = snowflakeplugin.ParseID(values.Get("absent"))
	wantInvalid(t, err, "empty")
}

func TestFlagTakesAnID(t *testing.T) {
	var id snowflakeplugin.ID
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&id, "id", snowflakeplugin.ID(7), "the order")
	if id != 7 || flags.Lookup("id").DefValue != "7" {
		t.Errorf("default %d, shown as %q", id, flags.Lookup("id").DefValue)
	}
	if err := flags.Parse([]string{"-id=1541815603606036480"}); err != nil ||
		id != 1541815603606036480 {
		t.Errorf("parsed %d, %v", id, err)
	}
	if err := flags.Parse([]string{"-id=12x"}); err == nil ||
		!strings.Contains(err.Error(), `"x" at offset 2`) || id != 1541815603606036480 {
		t.Errorf("after a bad flag: %d, %v", id, err)
	}
}

func TestLogsShowAnIDAsAnExactString(t *testing.T) {
	id := snowflakeplugin.ID(9007199254740993)
	type row struct{ ID snowflakeplugin.ID }
	log := func(handler func(io.Writer, *slog.HandlerOptions) slog.Handler) string {
		var out bytes.Buffer
		slog.New(handler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 && a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})).Info("m", "id", id, "ptr", &id, "ids", []snowflakeplugin.ID{id}, "row", row{id},
			"bad", snowflakeplugin.ID(-1))
		return out.String()
	}
	got := log(func(w io.Writer, o *slog.HandlerOptions) slog.Handler {
		return slog.NewJSONHandler(w, o)
	})
	const asJSON = `{"level":"INFO","msg":"m","id":"9007199254740993","ptr":"9007199254740993",` +
		`"ids":["9007199254740993"],"row":{"ID":"9007199254740993"},"bad":"-1"}` + "\n"
	if got != asJSON {
		t.Errorf("JSON handler:\ngot  %swant %s", got, asJSON)
	}
	got = log(func(w io.Writer, o *slog.HandlerOptions) slog.Handler {
		return slog.NewTextHandler(w, o)
	})
	const asText = `level=INFO msg=m id=9007199254740993 ptr=9007199254740993 ` +
		`ids=[9007199254740993] row={ID:9007199254740993} bad=-1` + "\n"
	if got != asText {
		t.Errorf("text handler:\ngot  %swant %s", got, asText)
	}
	if kind := slog.AnyValue(id).Resolve().Kind(); kind != slog.KindString {
		t.Errorf("other handlers see a %v", kind)
	}
}

func TestLogOfANilPointerDoesNotPanic(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "id", (*snowflakeplugin.ID)(nil))
	if !strings.Contains(out.String(), "id=") {
		t.Errorf("logged %q", out.String())
	}
}

func TestGobKeepsAnID(t *testing.T) {
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(maxID); err != nil {
		t.Fatal(err)
	}
	var got snowflakeplugin.ID
	if err := gob.NewDecoder(&buf).Decode(&got); err != nil || got != maxID {
		t.Errorf("read back %d, %v", got, err)
	}
}
