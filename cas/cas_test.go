package cas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mneme/cas"
)

// The digest of "abc" is published in FIPS 180-2, appendix B.1.
const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestDigestText(t *testing.T) {
	d := cas.Sum([]byte("abc"))
	if d.String() != abc {
		t.Errorf("String() = %s, want %s", d, abc)
	}
	parsed, err := cas.ParseDigest(abc)
	if err != nil || parsed != d {
		t.Errorf("ParseDigest = %v, %v", parsed, err)
	}
	for _, bad := range []string{"", "ba78", abc + "00", strings.ToUpper(abc), strings.Repeat("g", 64), abc[:63] + "\n"} {
		if d, err := cas.ParseDigest(bad); err == nil {
			t.Errorf("ParseDigest(%q) = %v, want an error", bad, d)
		}
	}
}

func TestDigestJSON(t *testing.T) {
	type pair struct{ A, B cas.Digest }
	data, err := json.Marshal(pair{A: cas.Sum([]byte("abc"))})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"A":"` + abc + `","B":""}`; string(data) != want {
		t.Errorf("Marshal = %s, want %s", data, want)
	}
	var back pair
	if err := json.Unmarshal(data, &back); err != nil || !back.B.IsZero() || back.A != cas.Sum([]byte("abc")) {
		t.Errorf("Unmarshal = %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"A":"xyz"}`), &back); err == nil {
		t.Error("Unmarshal of a bad digest succeeded")
	}
}
