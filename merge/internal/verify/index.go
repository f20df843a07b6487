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
	fail   func(error)    // called when a file fails
	memory map[sum]string // nil when all is in the files
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

func newIndex(fail func(error)) *index { return &index{fail: fail, memory: map[sum]string{}} }

func (x *index) len() int {
	if x == nil {
		return 0
	}
	return len(x.memory) + int(x.used) //nolint:gosec // fewer than the rows of a table
}

func (x *index) get(s sum) (string, bool) {
	switch {
	case x == nil:
		return "", false
	case x.memory != nil:
		text, ok := x.memory[s]
		return text, ok
	}
	_, slot, found := x.find(s)
	text := make([]byte, binary.BigEndian.Uint64(slot[24:]))
	if found {
		position := int64(binary.BigEndian.Uint64(slot[16:])) - 1 //nolint:gosec // a position in a file
		x.done(x.texts.ReadAt(text, position))
	}
	return string(text), found
}

func (x *index) set(s sum, text string) {
	if x.memory != nil {
		if _, known := x.memory[s]; !known {
			x.bytes += 64
		}
		x.memory[s] = text
		if x.bytes += len(text); x.bytes >= indexMemory {
			x.spill()
		}
		return
	}
	if 2*x.used >= x.room {
		x.grow()
	}
	offset, slot, found := x.find(s)
	if !found {
		x.used++
	}
	copy(slot[:16], s[:])
	binary.BigEndian.PutUint64(slot[16:], uint64(x.size)+1) //nolint:gosec // a position in a file
	binary.BigEndian.PutUint64(slot[24:], uint64(len(text)))
	x.done(x.texts.WriteAt([]byte(text), x.size))
	x.size += int64(len(text))
	x.done(x.slots.WriteAt(slot[:], offset))
}

// spill moves what is in memory to files.
func (x *index) spill() {
	all := x.memory
	x.memory, x.texts = nil, x.file()
	x.table(1 << 16)
	for s, text := range all {
		x.set(s, text)
	}
}

// file makes a temporary file. If that fails, it is nil, and so everything that is done to it fails.
func (x *index) file() *os.File {
	f, err := os.CreateTemp("", "merge-verify-*")
	x.done(0, err)
	return f
}

func (x *index) table(room uint64) {
	x.slots, x.room, x.used = x.file(), room, 0
	x.done(0, x.slots.Truncate(int64(room)*slotSize)) //nolint:gosec // the size of a file
}

// grow makes a larger table of the same slots.
func (x *index) grow() {
	old := x.slots
	defer remove(old)
	x.table(4 * x.room)
	for slots := bufio.NewReader(old); ; {
		var slot [slotSize]byte
		if n, err := io.ReadFull(slots, slot[:]); err != nil {
			if !errors.Is(err, io.EOF) {
				x.done(n, err)
			}
			return
		}
		if binary.BigEndian.Uint64(slot[16:]) == 0 {
			continue
		}
		offset, _, _ := x.find(sum(slot[:16]))
		x.done(x.slots.WriteAt(slot[:], offset))
		x.used++
	}
}

// find returns the slot of a hash, or the empty one that it can have.
func (x *index) find(s sum) (offset int64, slot [slotSize]byte, found bool) {
	for i := binary.BigEndian.Uint64(s[:8]) % x.room; ; i = (i + 1) % x.room {
		offset = int64(i) * slotSize //nolint:gosec // a position in a file
		if n, err := x.slots.ReadAt(slot[:], offset); err != nil {
			x.done(n, err)
			return 0, [slotSize]byte{}, false
		}
		switch {
		case binary.BigEndian.Uint64(slot[16:]) == 0:
			return offset, slot, false
		case sum(slot[:16]) == s:
			return offset, slot, true
		}
	}
}

// done takes what reading or writing a file has returned.
func (x *index) done(_ int, err error) {
	if err != nil {
		x.fail(fmt.Errorf("a temporary file in %s: %w", os.TempDir(), err))
	}
}

func (x *index) close() {
	if x != nil && x.memory == nil {
		remove(x.slots)
		remove(x.texts)
	}
}

// remove closes and removes a temporary file. If that fails, the system removes it some day.
func remove(f *os.File) {
	if f != nil {
		_ = errors.Join(f.Close(), os.Remove(f.Name()))
	}
}
