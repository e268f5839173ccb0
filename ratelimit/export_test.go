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

// Publishes reports whether a denial of key is to be read without a lock at this moment.
func (m *MemoryStore) Publishes(key string) bool {
	hash := m.hash(key)
	q := m.shard(hash).published(hash).Load()
	return q != nil && q.key == key && q.until.Load() > int64(m.now())
}

// MaxQueues is how many windows a shard keeps apart.
const MaxQueues = maxQueues

// Counters returns how many counters there are in all logs, and ids of what was refunded from them.
func (m *MemoryStore) Counters() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.each(func(k *keyLog) {
			if b := k.buckets(); b != nil {
				n += len(b.refunds)
				for i := range b.rings {
					n += len(b.rings[i].counts)
				}
			}
		})
		s.mu.Unlock()
	}
	return n
}

// RefundsNoted returns how many refunds are remembered of a key before another store.
func (l *Limiter) RefundsNoted(key string) int {
	v := l.remote.local.enter(key)
	defer v.shard.mu.Unlock()
	if v.own == nil || v.own.buckets() == nil {
		return 0
	}
	return len(v.own.buckets().refunds)
}
