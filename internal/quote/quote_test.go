package quote

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, test := range [][2]string{
		{"plain é 記 →", "plain é 記 →"},
		{"\x1b[2J\r\n\t\x00\x7f", `\x1b[2J\r\n\t\x00\x7f`},
		{"\u009b31m", `\u009b31m`}, // the control sequence introducer in one character
		{"a\u202eb", `a\u202eb`},   // writes from right to left from here on
		{"\u2066\u200b\ufeff\u2028\u00ad", `\u2066\u200b\ufeff\u2028\u00ad`},
		{"\xff\xfe", `\xff\xfe`},           // not UTF-8
		{"\uFFFD", "\uFFFD"},               // the replacement character itself is harmless
		{"tag\U000E0041", `tag\U000e0041`}, // invisible
		{"\u3164\u115f\u1160\uffa0\u2800\u034f\U0001d159", `\u3164\u115f\u1160\uffa0\u2800\u034f\U0001d159`},
		{"a\u00a0\u202f\u3000b", `a\u00a0\u202f\u3000b`},
		{"\uf8ff\ufdd0\uffff\U000e1234", `\uf8ff\ufdd0\uffff\U000e1234`}, // private, no characters, not assigned
		{"❤\ufe0f 1\ufe0f\u20e3", "❤\ufe0f 1\ufe0f\u20e3"},
		{"a\ufe0f\ufe0f辻\U000e0100", `a\ufe0f\ufe0f辻\U000e0100`},
		{"👩🏽\u200d🚀 می\u200cخواهم क्\u200dष", "👩🏽\u200d🚀 می\u200cخواهم क्\u200dष"},
		{"a\u200db\u200c", `a\u200db\u200c`},
		{"e\u0301 שָׁ֑", "e\u0301 שָׁ֑"},
		{"z" + strings.Repeat("\u0335", 8), "z" + strings.Repeat("\u0335", 6) + `\u0335\u0335`},
		{"क" + strings.Repeat("\u093e", 8), "क" + strings.Repeat("\u093e", 8)}, // each beside the other
		{"မြွှေး བསྒྲུབས ประเทศที่", "မြွှေး བསྒྲུབས ประเทศที่"},               // Burmese, Tibetan, Thai
		{"\u0301a/\u0338b \u0301", `\u0301a/\u0338b \u0301`},
	} {
		if got := Text(test[0]); got != test[1] {
			t.Errorf("Text(%q) = %q, want %q", test[0], got, test[1])
		}
	}
	for text, want := range map[string]string{
		" \n a\u2003  ": `" \n a\u2003  "`,
		"a ":            `"a "`,
		`"a "`:          `"\"a \""`,
		`"a" b`:         `"a" b`,
		`"`:             `"`,
		"a \n":          `a \n`,
		"":              "",
	} {
		if got := Cell(text); got != want {
			t.Errorf("Cell(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestNameAndLine(t *testing.T) {
	if got, want := Name(`a "b" \ c`+"\n\u3164"), `"a \"b\" \\ c\n\u3164"`; got != want {
		t.Errorf("Name = %s, want %s", got, want)
	}
	if got, want := Name(strings.Repeat("é", MaxName)), `"`+strings.Repeat("é", MaxName/2)+`"… (8192 bytes)`; got != want {
		t.Errorf("Name of what is long = %s", got)
	}
	if got, want := Line("one\ntwo"), "one; two"; got != want {
		t.Errorf("Line = %s, want %s", got, want)
	}
	if got := Line(strings.Repeat("x\xff", MaxLine)); len(got) > 4*MaxLine || !strings.HasSuffix(got, "… (16384 bytes)") {
		t.Errorf("Line of what is long has %d bytes", len(got))
	}
	if got := string(LogLine([]byte("a=\u3164 b=\"\\u202e\"\n"))); got != `a=\u3164 b="\u202e"`+"\n" {
		t.Errorf("LogLine = %q", got)
	}
}

func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"a", "\xff\"\\", "👩🏽\u200d🚀", "\u0301\u0301", "\U000e0041\u2028", "a\u200d\u200c\ufe0f", strings.Repeat("é", MaxName)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hidden := func(r rune) bool {
			return !unicode.IsPrint(r) && !IsJoiner(r) || r != textForm && r != emojiForm && IsBlank(r)
		}
		name := Name(s)
		for _, shown := range []string{Text(s), Cell(s), name, Line(s)} {
			if !utf8.ValidString(shown) || strings.ContainsFunc(shown, hidden) {
				t.Errorf("%q is shown as %q", s, shown)
			}
		}
		if back, err := strconv.Unquote(name); len(s) <= MaxName && (err != nil || back != s) {
			t.Errorf("Name(%q) = %s, which is %q, %v", s, name, back, err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var plain, back string
		shown := JSON(text)
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(shown, &back); err != nil || back != plain {
			t.Errorf("JSON(%s) = %s, which is %q, %v", text, shown, back, err)
		}
		if strings.ContainsFunc(string(shown), func(r rune) bool { return !unicode.IsPrint(r) || IsBlank(r) }) {
			t.Errorf("JSON(%s) = %s", text, shown)
		}
	})
}

func TestPlace(t *testing.T) {
	for _, c := range []struct{ text, path, want string }{
		{"notes:/a b changed", "/a b", `"notes:/a b" changed`},
		{"notes:/a\nb changed; notes:/a\nb", "/a\nb", `"notes:/a\nb" changed; notes:/a` + "\nb"},
		{"kept: /f was lost", "/f", `kept: "/f" was lost`},
		{"/f was lost", "/f", `"/f" was lost`},
		{"create e: bad path", "e", `create "e": bad path`},
		{"create: bad path", "e", "create: bad path"},
		{"something else", "/f", "something else"},
	} {
		if got := Place(c.text, c.path); got != c.want {
			t.Errorf("Place(%q, %q) is %q, want %q", c.text, c.path, got, c.want)
		}
	}
}
