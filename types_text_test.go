package snowflakeplugin_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
)

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
