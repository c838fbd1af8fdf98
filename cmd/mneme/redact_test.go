package main

import (
	"errors"
	"testing"

	"mneme/spool"
)

func TestWaitingForAMount(t *testing.T) {
	has := func(text []byte) bool { return string(text) == "canary" }
	for _, c := range []struct {
		name string
		left *spool.Entry
		want error
	}{
		{"its text", &spool.Entry{Path: "/a", Data: []byte("canary")}, errWaiting},
		{"its path", &spool.Entry{Path: "canary"}, errWaiting},
		{"damaged", nil, errWaiting},
		{"another", &spool.Entry{Path: "/a", Data: []byte("b")}, nil},
	} {
		if err := waiting(c.left, has); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
