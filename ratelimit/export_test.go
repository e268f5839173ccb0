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
