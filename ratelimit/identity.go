package ratelimit

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// newName returns what all ids of one store begin with: 60 random bits, and the version of an id that is made
// in a way of its own (RFC 9562, section 5.8).
func newName() (name [8]byte) {
	id := uuid.New()
	copy(name[:], id[8:]) // of these 62 bits are random
	copy(name[:6], id[:6])
	name[6] = 0x80 | name[6]&0x0f
	return name
}

// newID returns an id that no call has got before, in this store or another. It is the number of the call in its shard,
// under the name of the store: it costs no random bytes and nothing that cores would share. Whoever has
// seen one ticket of a store can guess others; who has seen none cannot.
func (m *MemoryStore) newID(s *shard) (id uuid.UUID) {
	s.ids++
	copy(id[:8], m.name[:])
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|s.number<<56|s.ids)
	return id
}
