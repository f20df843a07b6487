package keys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A report is all that a run has measured. The tables are made of nothing else.
type report struct {
	Date    string            `json:"date"`
	Go      string            `json:"go"`
	Cores   int               `json:"cores"`
	Rows    int               `json:"rows"`
	Servers []string          `json:"servers"`
	Version map[string]string `json:"versions"`
	Figures []figure          `json:"figures"`
}

// The lines between which the tables stand in a document.
const (
	beginMark = "<!-- tables: begin, made by bench/keys -->\n"
	endMark   = "<!-- tables: end -->\n"
)

// write keeps the data and puts the tables into the document.
func (r report) write(data, page string) error {
	raw, err := r.raw()
	if err != nil {
		return err
	}
	if err := os.WriteFile(data, raw, 0o644); err != nil { //nolint:gosec // it is public
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, begun := strings.Cut(string(text), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s lacks the lines that mark the place of the tables", page)
	}
	changed := head + beginMark + r.tables() + endMark + tail
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec // it is public
}

// raw is JSON with a line for each figure.
func (r report) raw() ([]byte, error) {
	figures := r.Figures
	r.Figures = nil
	head, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(bytes.TrimSuffix(head, []byte("null\n}")))
	for i, f := range figures {
		line, err := json.Marshal(f)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(text, "%s\n  %s", []string{"[", ","}[min(i, 1)], line)
	}
	text.WriteString("\n ]\n}\n")
	return text.Bytes(), nil
}

// tables is Markdown.
func (r report) tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s with %s on %d cores, %s rows for each kind of key.\n",
		r.Date, r.Go, r.Cores, thousands(float64(r.Rows)))
	for _, server := range r.Servers {
		fmt.Fprintf(&b, "\n### %s\n\n", r.Version[server])
		b.WriteString("| key | rows/s, first fifth | rows/s, last fifth | rows/s, GORM | rows/s, 8 writers " +
			"| MB of table and index | reads/s by key | newest 100 by key, ms | by time, ms " +
			"| by indexed time, ms |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
		const line = "| %[1]s | %[3]s | %[4]s | %[5]s | %[6]s | %.1[2]f | %[7]s | %[8]s | %[9]s | %[10]s |\n"
		columns := [][]string{{growth(1), growth(2)}, {growth(parts - 1), growth(parts)}, {byGORM}, {single},
			{reads}, {byKey}, {byTime}, {byIndexed}}
		var values []map[string]float64
		for _, names := range columns {
			values = append(values, r.shown(server, names...))
		}
		for _, f := range r.Figures {
			if f.Server != server {
				continue
			}
			cells := []any{f.Strategy, float64(f.Rows+f.Indexes) / 1e6}
			for i, names := range columns {
				value, ok := values[i][f.Strategy]
				switch {
				case !ok:
					cells = append(cells, "–")
				case strings.HasSuffix(names[0], "ms"):
					cells = append(cells, fmt.Sprintf("%.2f", value))
				default:
					cells = append(cells, thousands(value))
				}
			}
			fmt.Fprintf(&b, line, cells...)
		}
	}
	return b.String()
}

// thousands writes a whole number in groups of three digits.
func thousands(value float64) string {
	digits := []byte(fmt.Sprintf("%.0f", value))
	for end := len(digits) - 3; end > 0; end -= 3 {
		digits = slices.Insert(digits, end, ',')
	}
	return string(digits)
}
