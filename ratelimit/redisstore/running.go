package redisstore

import "sync"

// running is goroutines that are under way. Unlike those of a WaitGroup some may begin while somebody waits, who then
// waits for them as well.
type running struct {
	mu   sync.Mutex
	n    int
	none sync.Cond // its L is mu once somebody waits
}

func (r *running) run(f func()) {
	r.mu.Lock()
	r.n++
	r.mu.Unlock()
	go func() {
		defer r.end()
		f()
	}()
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		r.none.Broadcast()
	}
}

// wait holds up nobody who begins.
func (r *running) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.none.L == nil {
		r.none.L = &r.mu
	}
	for r.n > 0 {
		r.none.Wait()
	}
}
