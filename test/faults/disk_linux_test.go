package faults_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Where a disk is full, MariaDB and MySQL do not say the same, nor the same each time: the file of a definition
// may still fit, and that of the rows not. It is no right that the login lacks, and is over when there is room.
func TestTablesThatADiskHasNoRoomForAreMadeWhenThereIsRoom(t *testing.T) {
	nightly.Only(t, "two servers of their own take some seconds; TestErrorsOfEveryDialect has what they say")
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a disk")
	}
	for _, f := range privateServers() {
		if f.driver != "mysql" {
			continue
		}
		t.Run(f.target.Name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, f)
			disk := mountDisk(t, filepath.Join(s.dir, "faults"))
			full := filepath.Join(disk, "filler")
			for _, free := range []int{0, 16 << 10} {
				if err := os.WriteFile(full, make([]byte, diskSize-free), 0o600); err != nil {
					t.Fatal(err)
				}
				db := s.target.OpenDSN(t, s.patientDSN(s.port), nil)
				_, leases := gormlease.New(db)
				for what, err := range map[string]error{
					"the table of the leases": leases,
					"leases of a plugin":      s.target.OpenDSN(t, s.patientDSN(s.port), nil).Use(snowflakeplugin.New()),
					"the note":                db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))),
				} {
					if !errors.Is(err, lease.ErrStore) || errors.Is(err, gormlease.ErrTable) || !snowflakeplugin.Retryable(err) ||
						!strings.Contains(fmt.Sprint(err), "the disk of the database is full") {
						t.Errorf("%s, with %d bytes: %v", what, free, err)
					}
				}
			}
			if err := os.Remove(full); err != nil {
				t.Fatal(err)
			}
			if err := s.target.OpenDSN(t, s.patientDSN(s.port), nil).Use(snowflakeplugin.New()); err != nil {
				t.Errorf("with room: %v", err)
			}
		})
	}
}

// diskSize is how many bytes such a disk has.
const diskSize = 4 << 20

// mountDisk puts a small disk in the place of a directory, for whoever owns that.
func mountDisk(t *testing.T, dir string) string {
	t.Helper()
	var owner syscall.Stat_t
	err := syscall.Stat(dir, &owner)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,uid=%d,gid=%d", diskSize, owner.Uid, owner.Gid))
	}
	if errors.Is(err, syscall.EPERM) {
		t.Skip("nothing can be mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
