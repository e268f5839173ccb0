package ratelimit

import "testing"

func TestAKeyKeepsWhatKeyWrites(t *testing.T) {
	for c := range 256 {
		if got, want := kept(byte(c)), plain(byte(c)) || c == ':' || c == '%' || c == hashMark; got != want {
			t.Errorf("%q: %v", rune(c), got)
		}
	}
}
