package ratelimit

// Len returns the number of logs that m holds, the overflow logs not counted.
func (m *MemoryStore) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += len(m.shards[i].logs)
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
		for _, l := range s.logs {
			n += l.size
		}
		for _, q := range s.queues {
			n += q.overflow.size
		}
		s.mu.Unlock()
	}
	return n
}
