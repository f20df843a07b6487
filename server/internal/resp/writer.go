package resp

import (
	"bufio"
	"strconv"
	"strings"
)

// writer writes answers. An error of the connection shows when it is flushed.
type writer struct {
	*bufio.Writer

	number []byte
	digits []byte // of an ID
	three  bool   // the client has asked for version 3 of the protocol
}

func (w *writer) simple(text string) { w.text("+" + text + "\r\n") }

// broken says whether a write has failed. Then all others fail, too.
func (w *writer) broken() bool {
	_, err := w.Write(nil)
	return err != nil
}

// fail writes an error. Its text has one line, or the client would lose the thread.
func (w *writer) fail(code, text string) {
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	w.text("-" + code + " " + text + "\r\n")
}

func (w *writer) bulk(texts ...string) {
	for _, text := range texts {
		w.header('$', int64(len(text)))
		w.text(text + "\r\n")
	}
}

func (w *writer) integer(n int64) { w.header(':', n) }

func (w *writer) id(id int64) {
	w.digits = strconv.AppendInt(w.digits[:0], id, 10)
	w.header('$', int64(len(w.digits)))
	w.digits = append(w.digits, '\r', '\n')
	_, _ = w.Write(w.digits) // as in header
}

// null is the answer for what there is not. In version 2 of the protocol it is a text or an array, as kind
// says, of the length -1.
func (w *writer) null(kind byte) {
	if w.three {
		w.text("_\r\n")
		return
	}
	w.header(kind, -1)
}

func (w *writer) array(n int) { w.header('*', int64(n)) }

// dictionary writes the head of n pairs.
func (w *writer) dictionary(n int) {
	if w.three {
		w.header('%', int64(n))
		return
	}
	w.array(2 * n)
}

func (w *writer) header(kind byte, n int64) {
	w.number = append(w.number[:0], kind)
	w.number = strconv.AppendInt(w.number, n, 10)
	w.number = append(w.number, '\r', '\n')
	_, _ = w.Write(w.number) // a bufio.Writer keeps its error
}

func (w *writer) text(s string) { _, _ = w.WriteString(s) }
