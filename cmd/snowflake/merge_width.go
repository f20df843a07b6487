package main

import (
	"strings"
	"unicode"
)

// width returns how many columns of a terminal a text takes.
func width(text string) (columns int) {
	for _, r := range text {
		columns += widthOf(r)
	}
	return columns
}

func widthOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me): // a mark that combines with the letter before it
		return 0
	case wide(r):
		return 2
	}
	return 1
}

// wide tells whether a character takes two columns of a terminal. Full-width characters of Chinese, Japanese
// and Korean do, and so do emoji. Terminals use one column for what Unicode calls "ambiguous".
func wide(r rune) bool {
	if r < 0x1100 {
		return false
	}
	for _, block := range [][2]rune{
		{0x1100, 0x115f}, // the first parts of Korean syllables
		{0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
		{0xfe30, 0xfe6f}, {0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x17000, 0x18cff}, {0x1b000, 0x1b2ff},
		{0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
	} {
		if block[0] <= r && r <= block[1] {
			return true
		}
	}
	return false
}

// cut returns the longest beginning of a text that fits into a number of columns.
func cut(text string, columns int) string {
	for at, r := range text {
		if columns -= widthOf(r); columns < 0 {
			return text[:at]
		}
	}
	return text
}

// padding returns the spaces that fill a column after a text.
func padding(text string, columns int) string {
	return strings.Repeat(" ", max(columns-width(text), 0))
}
