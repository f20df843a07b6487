package verify

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// index maps hashes to texts. When it has become large it continues in two temporary files, so the memory
// that it takes does not grow with the tables.
type index struct {
	memory map[sum]string
	bytes  int
	slots  *os.File // an open hash table: hash, position + 1, length
	texts  *os.File
	size   int64 // of texts
	room   uint64
	used   uint64
}

// indexMemory is how many bytes an index keeps in memory.
const indexMemory = 4 << 20

const slotSize = 32

func newIndex() *index { return &index{memory: map[sum]string{}} }

func (x *index) len() int {
	if x == nil {
		return 0
	}
	return len(x.memory) + int(x.used) //nolint:gosec // fewer than the rows of a table
}

// get returns the text of a hash.
func (x *index) get(s sum) (string, bool, error) {
	if x == nil {
		return "", false, nil
	}
	if x.slots == nil {
		text, ok := x.memory[s]
		return text, ok, nil
	}
	_, slot, found, err := x.find(s)
	if err != nil || !found {
		return "", false, err
	}
	text := make([]byte, binary.BigEndian.Uint64(slot[24:]))
	_, err = x.texts.ReadAt(text,
		int64(binary.BigEndian.Uint64(slot[16:]))-1) //nolint:gosec // a position in a file
	return string(text), true, failed(err)
}

// set stores the text of a hash.
func (x *index) set(s sum, text string) error {
	if x.slots == nil {
		if _, known := x.memory[s]; !known {
			x.bytes += 64
		}
		x.memory[s] = text
		if x.bytes += len(text); x.bytes < indexMemory {
			return nil
		}
		return x.spill()
	}
	if 2*x.used >= x.room {
		if err := x.grow(); err != nil {
			return err
		}
	}
	offset, slot, found, err := x.find(s)
	if err != nil {
		return err
	}
	if !found {
		x.used++
	}
	copy(slot[:16], s[:])
	binary.BigEndian.PutUint64(slot[16:], uint64(x.size)+1) //nolint:gosec // a position in a file
	binary.BigEndian.PutUint64(slot[24:], uint64(len(text)))
	if _, err := x.texts.WriteAt([]byte(text), x.size); err != nil {
		return failed(err)
	}
	x.size += int64(len(text))
	_, err = x.slots.WriteAt(slot[:], offset)
	return failed(err)
}

// spill moves what is in memory to files.
func (x *index) spill() (err error) {
	if x.texts, err = os.CreateTemp("", "merge-verify-*"); err != nil {
		return failed(err)
	}
	if err := x.table(1 << 16); err != nil {
		return err
	}
	all := x.memory
	x.memory = nil
	for s, text := range all {
		if err := x.set(s, text); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) table(room uint64) (err error) {
	if x.slots, err = os.CreateTemp("", "merge-verify-*"); err != nil {
		return failed(err)
	}
	x.room, x.used = room, 0
	return failed(x.slots.Truncate(int64(room) * slotSize)) //nolint:gosec // the size of a file
}

// grow makes a larger table of the same slots.
func (x *index) grow() error {
	old := x.slots
	defer remove(old)
	if err := x.table(4 * x.room); err != nil {
		return err
	}
	for slots := bufio.NewReader(old); ; {
		var slot [slotSize]byte
		if _, err := io.ReadFull(slots, slot[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return failed(err)
		}
		if binary.BigEndian.Uint64(slot[16:]) == 0 {
			continue
		}
		offset, _, _, err := x.find(sum(slot[:16]))
		if err != nil {
			return err
		}
		if _, err := x.slots.WriteAt(slot[:], offset); err != nil {
			return failed(err)
		}
		x.used++
	}
}

// find returns the slot of a hash, or the empty one that it can have.
func (x *index) find(s sum) (offset int64, slot [slotSize]byte, found bool, err error) {
	for i := binary.BigEndian.Uint64(s[:8]) % x.room; ; i = (i + 1) % x.room {
		offset = int64(i) * slotSize //nolint:gosec // a position in a file
		if _, err := x.slots.ReadAt(slot[:], offset); err != nil {
			return 0, slot, false, failed(err)
		}
		switch {
		case binary.BigEndian.Uint64(slot[16:]) == 0:
			return offset, slot, false, nil
		case sum(slot[:16]) == s:
			return offset, slot, true, nil
		}
	}
}

func (x *index) close() {
	if x != nil && x.slots != nil {
		remove(x.slots)
		remove(x.texts)
	}
}

// remove closes and removes a temporary file. If that fails, the system removes it some day.
func remove(f *os.File) { _ = errors.Join(f.Close(), os.Remove(f.Name())) }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a temporary file in %s: %w", os.TempDir(), err)
}
