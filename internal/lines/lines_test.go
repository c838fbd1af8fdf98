package lines

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestNext reads lines that are as long as they may be, and longer ones.
func TestNext(t *testing.T) {
	const most = 5000 // more than is read at once
	full, long := strings.Repeat("x", most), strings.Repeat("y", most+1)
	input := "one\r\n\n  two \n" + full + "\n" + long + "\n" + strings.Repeat("z", 5*most) + "\nlast"
	want := []string{"one", "", "two", full, "long", "long", "last"}
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(input), "byte by byte": iotest.OneByteReader(strings.NewReader(input))} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r := NewReader(in, most)
			for {
				line, err := r.Next()
				switch {
				case errors.Is(err, io.EOF):
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
					return
				case errors.Is(err, ErrTooLong):
					line = []byte("long")
				case err != nil:
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
		})
	}
}

// TestNextEnds: a long line may be the last one, and an error of the input is told.
func TestNextEnds(t *testing.T) {
	r := NewReader(strings.NewReader(strings.Repeat("x", 10)), 5)
	if _, err := r.Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v, want ErrTooLong", err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want EOF", err)
	}
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken), 5).Next(); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the input", err)
	}
}
