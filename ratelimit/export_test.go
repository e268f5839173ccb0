package ratelimit

// Len returns the number of logs that m holds, the overflow logs not counted.
func (m *MemoryStore) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += m.shards[i].size
		m.shards[i].mu.Unlock()
	}
	return n
}

// Entries returns the number of entries in all logs, the overflow logs among them.
func (m *MemoryStore) Entries() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.each(func(k *keyLog) { n += int(k.size) })
		for i := range s.queues {
			n += int(s.queues[i].overflow.size)
		}
		s.mu.Unlock()
	}
	return n
}
