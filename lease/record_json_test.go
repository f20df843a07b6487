package lease_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const written = `{"node":7,"owner":"web-1 pid 4711 \u003c#a\u003e","until":"2026-05-01T10:00:15Z",` +
	`"version":3,"layout":"epoch=2025-01-01T00:00:00Z tick=1ms","updated_at":"2026-05-01T10:00:00.123456789Z"}`

func writtenRecord() lease.Record {
	return lease.Record{
		Node: 7, Owner: "web-1 pid 4711 <#a>", Version: 3, Layout: "epoch=2025-01-01T00:00:00Z tick=1ms",
		Until:     time.Date(2026, 5, 1, 10, 0, 15, 0, time.UTC),
		UpdatedAt: time.Date(2026, 5, 1, 10, 0, 0, 123456789, time.UTC),
	}
}

func TestARecordIsWrittenAndReadExactly(t *testing.T) {
	t.Parallel()
	record := writtenRecord()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != written {
		t.Errorf("written:\n%s\nwant:\n%s", text, written)
	}
	for name, text := range map[string]string{
		"as it is written": written,
		"in another order, with white space": `{ "updated_at" : "2026-05-01T10:00:00.123456789Z",
			"layout": "epoch=2025-01-01T00:00:00Z tick=1ms", "version": 3,
			"until": "2026-05-01T10:00:15Z", "owner": "web-1 pid 4711 <#a>", "node": 7 } `,
	} {
		var read lease.Record
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if read != record {
			t.Errorf("%s: read %+v, want %+v", name, read, record)
		}
	}
}

func TestATimeIsWrittenInUTCToTheNanosecond(t *testing.T) {
	t.Parallel()
	record := writtenRecord()
	record.Until = time.Date(2026, 5, 1, 12, 0, 15, 1, time.FixedZone("", 2*60*60))
	record.Version, record.Node = math.MaxInt64, math.MaxInt64
	record.Owner = ""
	text, err := record.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"until":"2026-05-01T10:00:15.000000001Z"`) {
		t.Errorf("written: %s", text)
	}
	var read lease.Record
	if err := read.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if !read.Until.Equal(record.Until) || read.Until.Location() != time.UTC {
		t.Errorf("the end is read as %v, want %v in UTC", read.Until, record.Until)
	}
	record.Until, read.Until = time.Time{}, time.Time{}
	if read != record {
		t.Errorf("read %+v, want %+v", read, record)
	}
}

func TestARecordThatNoKeeperWroteIsNotRead(t *testing.T) {
	t.Parallel()
	replaced := func(old, replacement string) string {
		text := strings.Replace(written, old, replacement, 1)
		if text == written {
			t.Fatalf("%s is not in %s", old, written)
		}
		return text
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":              {"", "no JSON object"},
		"a word":               {"null", "no JSON object"},
		"a list":               {"[" + written + "]", "no JSON object"},
		"half an object":       {written[:len(written)-1], "no JSON"},
		"a missing value":      {replaced("7", ""), "no JSON"},
		"two objects":          {written + written, "something follows"},
		"not UTF-8":            {replaced("web", "\xff"), "not UTF-8"},
		"a field twice":        {replaced(`"version":3`, `"version":3,"version":4`), `"version" twice`},
		"an unknown field":     {replaced(`"version":3`, `"version":3,"note":""`), `"note" is no field`},
		"other letters":        {replaced(`"node"`, `"Node"`), `"Node" is no field`},
		"no end":               {replaced(`"until":"2026-05-01T10:00:15Z",`, ""), `no field "until"`},
		"no owner":             {replaced(`"owner"`, `"holder"`), `no field "owner"`},
		"a node in quotes":     {replaced("7", `"7"`), `node is "7"`},
		"a fraction":           {replaced(`"version":3`, `"version":3.0`), "version is 3.0"},
		"an exponent":          {replaced(`"version":3`, `"version":3e0`), "version is 3e0"},
		"more than 64 bits":    {replaced(`"version":3`, `"version":9223372036854775808`), "whole number"},
		"null for a node":      {replaced("7", "null"), "node is null"},
		"null for a layout":    {replaced(`"epoch=2025-01-01T00:00:00Z tick=1ms"`, "null"), "layout is null"},
		"a number for an end":  {replaced(`"2026-05-01T10:00:15Z"`, "1777629615"), "until is 1777629615"},
		"an end of another":    {replaced("15Z", "15+02:00"), "until is"},
		"an end with a comma":  {replaced("15Z", "15,5Z"), "until is"},
		"an end without T":     {replaced("01T10:00:15", "01 10:00:15"), "until is"},
		"more than nanosecond": {replaced("56789Z", "567891Z"), "updated_at is"},
		"a negative node":      {replaced("7", "-7"), "negative"},
		"version zero":         {replaced(`"version":3`, `"version":0`), "version 0"},
		"an empty layout":      {replaced("epoch=2025-01-01T00:00:00Z tick=1ms", ""), "no layout"},
		"the zero time":        {replaced("2026-05-01T10:00:15Z", "0001-01-01T00:00:00Z"), "no end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := writtenRecord()
			err := read.UnmarshalJSON([]byte(c.text))
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrInvalidRecord that says %q", err, c.want)
			}
			if read != writtenRecord() {
				t.Errorf("the record was changed to %+v", read)
			}
		})
	}
}

func TestEverythingThatIsWrongWithARecordIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	var read lease.Record
	err := read.UnmarshalJSON([]byte(`{"node":"x","owner":1,"extra":0}`))
	for _, want := range []string{"node is", "owner is", `"until"`, `"version"`, `"layout"`, `"updated_at"`, `"extra"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestARecordThatCannotBeKeptAsItIsIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lease.Record){
		"an owner that is not UTF-8": func(r *lease.Record) { r.Owner = "\xff" },
		"a layout that is not UTF-8": func(r *lease.Record) { r.Layout = "\xff" },
		"an end in the year 10000":   func(r *lease.Record) { r.Until = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"an update before year 0":    func(r *lease.Record) { r.UpdatedAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		record := writtenRecord()
		change(&record)
		if text, err := record.MarshalJSON(); !errors.Is(err, lease.ErrInvalidRecord) {
			t.Errorf("%s: %s, %v; want ErrInvalidRecord", name, text, err)
		}
	}
}

// FuzzRecordJSON: whatever is read is written as something that is read as the same.
func FuzzRecordJSON(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte(`{"node":0,"owner":"\ud800","until":"9999-12-31T23:59:59.9Z","version":1,"layout":"l",` +
		`"updated_at":"0000-01-01T00:00:00Z"}`))
	f.Add([]byte(strings.Replace(written, "7", "-0", 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var read, again lease.Record
		if err := read.UnmarshalJSON(text); err != nil {
			if !errors.Is(err, lease.ErrInvalidRecord) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		rewritten, err := read.MarshalJSON()
		if err != nil {
			t.Fatalf("%q was read as %+v, which cannot be written: %v", text, read, err)
		}
		if err := again.UnmarshalJSON(rewritten); err != nil {
			t.Fatalf("%q was written again as %q, which cannot be read: %v", text, rewritten, err)
		}
		if again != read {
			t.Fatalf("%q was read as %+v, then as %+v", text, read, again)
		}
	})
}
