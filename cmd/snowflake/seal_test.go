package main

import (
	"os"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/opaque"
)

// The program that has the keys opens what the command has sealed, and the other way round.
func TestSealedTextsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	key := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	codec, err := opaque.New(key)
	if err != nil {
		t.Fatal(err)
	}
	l := leases{}
	text := strings.TrimSpace(l.succeed(t, "seal", "--kind", "order", anID))
	if id, err := codec.Open("order", text); err != nil || id != 249168410316800512 {
		t.Errorf("%q is %d, %v", text, id, err)
	}
	if got := l.succeed(t, "open", "--kind", "order", codec.Seal("order", 249168410316800512)); got != anID+"\n" {
		t.Errorf("it opens as %q", got)
	}
	if got := l.succeed(t, "seal", "--kind", "order", anID, "17"); got != anID+"  "+text+"\n17"+
		strings.Repeat(" ", len(anID))+codec.Seal("order", 17)+"\n" {
		t.Errorf("two are\n%s", got)
	}
	keyed, err := opaque.NewCodec([][]byte{key}, opaque.WithOnlyKeyedTags())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(l.succeed(t, "seal", "--keyed", "--kind", "order", anID)); got == text {
		t.Errorf("with a keyed tag it is %q as well", got)
	} else if id, err := keyed.Open("order", got); err != nil || id != 249168410316800512 {
		t.Errorf("%q is %d, %v", got, id, err)
	} else if opened := l.succeed(t, "open", "--kind", "order", got); opened != anID+"\n" {
		t.Errorf("%q opens as %q", got, opened)
	}
	all := decode[[]sealedInfo](t, l.succeed(t, "open", "--kind", "order", "--json", text))
	if len(all) != 1 || all[0] != (sealedInfo{249168410316800512, "order", text}) {
		t.Errorf("as JSON: %+v", all)
	}
	for kind, args := range map[string][]string{"user": {text}, "order": {text, text[1:] + "0"}} {
		code, stdout, stderr := call(t, "", append([]string{"open", "--kind", kind}, args...)...)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, "does not open") {
			t.Errorf("kind %s: exit code %d, %s%s", kind, code, stdout, stderr)
		}
	}
}

func TestTheSecondKeyOnlyOpens(t *testing.T) {
	t.Parallel()
	second := []byte{16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}
	codec, err := opaque.New(second)
	if err != nil {
		t.Fatal(err)
	}
	l := leases{}
	if got := l.succeed(t, "open", "--kind", "order", codec.Seal("order", 17)); got != "17\n" {
		t.Errorf("it opens as %q", got)
	}
	if got := l.succeed(t, "seal", "--kind", "order", "17"); strings.TrimSpace(got) == codec.Seal("order", 17) {
		t.Error("the second key seals")
	}
}

func TestKeysThatAreWrongAreNotShown(t *testing.T) {
	t.Parallel()
	const key = "00112233445566778899aabbccddeeff"
	for name, content := range map[string]string{
		"too short": key[2:], "too long": key + "00", "no digits": "g" + key[1:], "twice": key + "\n" + key,
		"zeros": strings.Repeat("0", 32), "nothing": " \n", "with a name": "key=" + key,
	} {
		file := t.TempDir() + "/opaque.key"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := call(t, "", "seal", "--kind", "order", "--key-file", file, "17")
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, "opaque.key") || strings.Contains(stderr, key[4:12]) {
			t.Errorf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
	}
	if code, _, stderr := call(t, "", "seal", "--kind", "order", "--key-file", t.TempDir()+"/none", "17"); code != exitFailure {
		t.Errorf("no file: exit code %d, %s", code, stderr)
	}
}
