package ratelimit_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

func TestContractInMemory(t *testing.T) { storetest.Run(t, inMemory) }

func TestModelInMemory(t *testing.T) { storetest.Model(t, inMemory) }

func inMemory(*testing.T) storetest.Backend {
	now := time.Unix(1_763_671_412, 345_678_000)
	return storetest.Backend{
		Store:   ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return now }}),
		Advance: func(d time.Duration) { now = now.Add(d) },
	}
}
