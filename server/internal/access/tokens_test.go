package access_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/access"
)

// Whoever can read the tokens can use them, and whoever can write them can add one.
func TestATokenFileThatIsOpenToAllIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	const secret = "0123456789abcdef-a-secret"
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("shop "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.Load(path, []string{"snowflake"})
	if err != nil {
		t.Fatal(err)
	}
	for mode, right := range map[os.FileMode]bool{
		0o400: true, 0o440: true, 0o600: true, 0o660: true, 0o604: false, 0o644: false, 0o602: false, 0o777: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := access.Load(path, []string{"snowflake"})
		if (err == nil) != right || (tokens.Reload() == nil) != right {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "chmod")) {
			t.Errorf("mode %04o: the error is %v", mode, err)
		}
	}
	if _, ok := tokens.Check(secret); !ok {
		t.Error("a file that was refused has taken away the tokens that were valid")
	}
}
