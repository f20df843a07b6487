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
	three  bool // the client has asked for version 3 of the protocol
}

func (w *writer) simple(text string) { w.text("+" + text + "\r\n") }

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

func (w *writer) bulk(text string) {
	w.header('$', int64(len(text)))
	w.text(text + "\r\n")
}

// integer writes a number as an integer of the protocol.
func (w *writer) integer(n int64) { w.header(':', n) }

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
