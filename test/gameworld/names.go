package gameworld

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Likeness is how the same name looks on several servers.
type Likeness int

const (
	// Same names are the same to the letter.
	Same Likeness = iota
	// Case names differ by case.
	Case
	// Accent names differ by an accent.
	Accent
	// Blank names differ by blanks at the end.
	Blank
	// Long names are the same and as long as the column allows, 16 runes, most of which have more
	// than one byte. Eight at a time differ by the last rune only, so that they are the same again
	// when they are cut.
	Long

	likenesses = 5
)

// String returns a word for messages.
func (l Likeness) String() string {
	switch l {
	case Same:
		return "same"
	case Case:
		return "case"
	case Accent:
		return "accent"
	case Blank:
		return "blank"
	case Long:
		return "long"
	}
	return "likeness " + strconv.Itoa(int(l))
}

// Nickname returns the nickname that stands for number n, counted from 0, on a server: the servers
// with a Clash have those from 0 on, as many as Config.Clash is of their roles. Where they differ
// they have three forms, which servers take in turn, so those of three servers in a row are three.
// Of Long ones, and of Same ones, there is one form.
func Nickname(server int64, n int) (string, Likeness) {
	turn, number := int(server%3), strconv.Itoa(n)
	word := wordFor(n)
	switch l := Likeness(n % likenesses); l {
	case Case:
		name := word + number
		return []string{name, strings.ToUpper(name), strings.ToLower(name)}[turn], l
	case Accent:
		return accented(word, turn) + number, l
	case Blank:
		return word + number + strings.Repeat(" ", turn), l
	case Long:
		const group = 8
		block := n / (group * likenesses)
		stem := wordFor(block) + strconv.Itoa(block)
		pad := strings.Repeat("龍", nicknameLength-1-utf8.RuneCountInString(stem))
		return stem + pad + string(rune('a'+n/likenesses%group)), l
	default:
		return word + number, l
	}
}

// GuildName is like [Nickname] for the guilds. They differ by nothing or by case.
func GuildName(server int64, n int) (string, Likeness) {
	name := "Order of " + wordFor(n) + strconv.Itoa(n)
	if n%2 == 1 {
		return []string{name, strings.ToUpper(name), strings.ToLower(name)}[server%3], Case
	}
	return name, Same
}

// wordFor begins the names of several servers. Six letters leave room for eight digits and two
// blanks.
func wordFor(n int) string {
	words := [...]string{
		"Falcon", "Heron", "Raven", "Osprey", "Merlin", "Kite", "Lark", "Finch",
		"Condor", "Eagle", "Ibis", "Jay", "Linnet", "Magpie", "Robin", "Wren",
	}
	return words[n%len(words)]
}

// accented puts an accent on the first vowel of a word, or none on turn 0.
func accented(word string, turn int) string {
	const plain = "aeiou"
	i := strings.IndexAny(word, plain)
	if turn == 0 || i < 0 {
		return word
	}
	marked := [][]rune{[]rune("áéíóú"), []rune("àèìòù")}[turn-1]
	return word[:i] + string(marked[strings.IndexByte(plain, word[i])]) + word[i+1:]
}

// Names of a server's own are syllables of two letters: one to four of them for the role, an x,
// which is in no syllable, and up to three for the server. So they are at most 15 letters, and no
// two of them are alike, on whichever servers. They have no digits, as all names of several
// servers have.
const (
	consonants = "bcdfghjklmnpqrstvwz"
	vowels     = "aeiouy"
	syllables  = len(consonants) * len(vowels)
	maxServers = 1 << 20
)

// ownNames makes the names of one server, in an order that its seed shuffles.
type ownNames struct {
	server       int64
	count        int64 // how many there are
	step, offset int64
}

func (o ownNames) name(n int) string {
	place := (int64(n)*o.step + o.offset) % o.count
	name := make([]byte, 0, nicknameLength)
	name = appendSyllables(name, place)
	name = append(name, 'x')
	name = appendSyllables(name, o.server)
	name[0] -= 'a' - 'A'
	return string(name)
}

func appendSyllables(name []byte, n int64) []byte {
	for {
		s := int(n % int64(syllables))
		name = append(name, consonants[s/len(vowels)], vowels[s%len(vowels)])
		n /= int64(syllables)
		if n == 0 {
			return name
		}
	}
}

// nicknames gives every role its name. Roles take slots in an order that the seed shuffles: first
// come the slots with clashing names, then those with taken names.
type nicknames struct {
	own          ownNames
	server       int64
	roles        int64
	step, offset int64
	clashing     int
	taken        []string
	toOwn        int // where the slots with names of the server's own begin
}

// slot is the place of a role in the list of names.
func (n nicknames) slot(role int) int { return int((int64(role)*n.step + n.offset) % n.roles) }

// nickname returns the name of a role.
func (n nicknames) nickname(role int) string {
	slot := n.slot(role)
	switch {
	case slot < n.clashing:
		name, _ := Nickname(n.server, slot)
		return name
	case slot < n.toOwn:
		return n.taken[slot-n.clashing]
	}
	return n.own.name(slot)
}

// takenNames are the names that the first clashing ones would be changed to. Some are the same
// after the cut; those count once. Of names with blanks at the end it is not clear what they become.
func takenNames(server int64, clashing, want int) []string {
	var taken []string
	seen := map[string]bool{}
	number := strconv.FormatInt(server, 10)
	for n := 0; n < clashing && len(taken) < want; n++ {
		name, likeness := Nickname(server, n)
		if likeness == Blank {
			continue
		}
		prefix, suffix := "s"+number+".", ".s"+number
		for _, next := range []string{
			cutTo(name, nicknameLength-len(suffix)) + suffix, prefix + cutTo(name, nicknameLength-len(prefix)),
		} {
			if !seen[next] && len(taken) < want {
				seen[next] = true
				taken = append(taken, next)
			}
		}
	}
	return taken
}

// cutTo cuts a text to so many runes.
func cutTo(s string, runes int) string {
	for i := range s {
		if runes == 0 {
			return s[:i]
		}
		runes--
	}
	return s
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
