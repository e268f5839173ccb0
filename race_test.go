//go:build race

package sash_test

const raceEnabled = true
