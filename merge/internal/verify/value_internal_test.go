package verify

import "testing"

func TestDocumentsHaveOneForm(t *testing.T) {
	for _, same := range [][2]string{
		{`{"b": 1.0, "a": [1e2, "x:\"y"]}`, `{"a":[100,"x:\"y"],"b":1}`},
		{`{"a": {"c": 2, "b": null}}`, `{"a":{"b":null,"c":2.00}}`},
		{`"\u00e9"`, `"é"`}, {`[]`, ` [ ] `}, {`{"a:b": ":"}`, `{"a:b":":"}`},
	} {
		if a, b := jsonText(same[0]), jsonText(same[1]); a != b {
			t.Errorf("%s is %s, and %s is %s", same[0], a, same[1], b)
		}
	}
	for _, other := range [][2]string{
		{`{"a": 1, "a": 2}`, `{"a": 2}`}, {`{"a": 1, "a": 2}`, `{"a": 3, "a": 2}`}, {`1 2`, `1`}, {`{`, `[`},
		{`[1, 2]`, `[2, 1]`}, {`"1"`, `1`}, {`{"a": {"b": 1, "b": 1}}`, `{"a": {"b": 1}}`},
		{"[\"\xe4\"]", "[\"\xf6\"]"}, {"[\"\xe4\"]", "[\"\uFFFD\"]"},
	} {
		if a, b := jsonText(other[0]), jsonText(other[1]); a == b {
			t.Errorf("%s and %s are both %s", other[0], other[1], a)
		}
	}
}
