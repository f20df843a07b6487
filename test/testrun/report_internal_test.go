package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The report reads what the go command says of a small module, which is written here for it.
func TestTheReportTellsWhatHappened(t *testing.T) {
	t.Parallel()
	packages := map[string]string{
		"good": `func TestGood(t *testing.T) { t.Run("one", func(t *testing.T) {}) }
			func TestS(t *testing.T) { t.Skip("no server") }
			func TestN(t *testing.T) { t.Skip("nightly: it takes an hour") }`,
		"bad":    `func TestBad(t *testing.T) { t.Log("before"); t.Error("a bad thing") }`,
		"panics": `func TestP(t *testing.T) { panic("oh no") }`,
		"exits":  `func TestX(t *testing.T) { println("last words"); os.Exit(3) }`,
		"hangs":  `func TestH(t *testing.T) { time.Sleep(time.Hour) }`,
		"broken": "func TestC(t *testing.T) { undefined() }",
	}
	var all strings.Builder
	r := &report{began: time.Now(), out: &all}
	feed(t, r, packages)
	if r.finish(0, false) {
		t.Error("all is well in spite of the failures")
	}
	for _, text := range []string{
		"FAILED m/bad: TestBad", "before", "a bad thing", "m/bad failed", "oh no", "m/panics failed", "last words",
		"m/exits failed", "test timed out", "m/hangs failed", "undefined: undefined", "m/broken failed",
		"1 tests are left to the night", "2 passed, 2 failed, 2 skipped",
	} {
		if !strings.Contains(all.String(), text) {
			t.Errorf("the report does not say %q", text)
		}
	}
	var some strings.Builder
	r = &report{began: time.Now(), out: &some}
	feed(t, r, map[string]string{"good": packages["good"]})
	if !r.finish(0, false) || !strings.Contains(some.String(), "2 passed, 0 failed, 2 skipped") {
		t.Errorf("good tests alone are not well:\n%s", some.String())
	}
	none := &report{began: time.Now(), out: &some}
	if none.finish(0, false) {
		t.Error("a run without a test is well")
	}
	if t.Failed() {
		t.Log(all.String())
	}
}

func TestAPartThatTakesTooLongIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most        time.Duration
		others      int // seconds of each of six other parts
		strict      bool
		well, named bool
	}{
		{0, 0, true, true, false},
		{time.Minute, 0, true, true, false},
		{time.Second, 0, false, true, true},
		{time.Second, 14, true, false, true},
		{time.Second, 15, true, true, true},
	} {
		var out strings.Builder
		r := &report{began: time.Now(), out: &out}
		events := `{"Action":"pass","Package":"m/slow","Test":"TestIt","Elapsed":30}
			{"Action":"pass","Package":"m/slow","Elapsed":30}`
		for n := range 6 {
			events += fmt.Sprintf("\n{\"Action\":\"pass\",\"Package\":\"m/other%d\",\"Elapsed\":%d}", n, c.others)
		}
		r.read(strings.NewReader(events))
		well := r.finish(c.most, c.strict)
		if named := strings.Contains(out.String(), "m/slow took 30 s"); well != c.well || named != c.named {
			t.Errorf("%+v: all is well: %t, the part is named: %t\n%s", c, well, named, out.String())
		}
	}
}

func TestThePlanHasEveryPackageOnce(t *testing.T) {
	t.Chdir("../..")
	for _, night := range []bool{false, true} {
		steps, err := plan(night, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, s := range steps {
			for _, p := range s.packages {
				name := filepath.ToSlash(filepath.Join(s.dir, p))
				seen[name]++
				if s.race != (night || isRaced(name)) {
					t.Errorf("%s runs with the race detector: %t", name, s.race)
				}
			}
		}
		for _, name := range []string{".", "merge", "generator", "test/testrun", "lease/etcdlease", "server/client"} {
			if seen[name] != 1 {
				t.Errorf("%s runs %d times", name, seen[name])
			}
		}
		if only, err := plan(night, []string{"lease/etcd"}); err != nil || len(only) != 1 {
			t.Errorf("one module alone has the steps %v, %v", only, err)
		}
		if _, err := plan(night, []string{"./lease"}); err == nil {
			t.Error("a name of no package is taken for a run without tests")
		}
	}
}

// feed runs the tests of a module, and lets the report read what the go command says.
func feed(t *testing.T, r *report, packages map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module m\n"}
	for name, code := range packages {
		imports := "import \"testing\"\n"
		for _, used := range []string{"os", "time"} {
			if strings.Contains(code, used+".") {
				imports += fmt.Sprintf("import %q\n", used)
			}
		}
		files[name+"/a_test.go"] = "package " + name + "\n" + imports + code
	}
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", "-timeout", "2s", "./...")
	test.Dir, test.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := test.Output()
	if len(output) == 0 && err != nil {
		t.Fatal(err)
	}
	r.read(strings.NewReader(string(output)))
}
