package main

import (
	"container/list"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"math/big"
	"sync"
	"time"
)

const (
	codeLifetime = 5 * time.Minute
	maxCodes     = 100_000 // at most 40 MB, if every address is as long as it may be
	maxGuesses   = 5
)

// codeStore keeps the latest code of each address, in this process. A code can be used in [t, t+codeLifetime),
// where t is when it was put, and once.
//
// It holds at most max codes. When it is full of live ones it takes no more, for to drop one would be to break a
// promise already mailed: one client with many addresses could do that, and a limit by ip beside the one by e-mail
// is what stops it. The expired are dropped on access: it has no goroutine, and nothing to close.
type codeStore struct {
	now func() time.Time
	max int

	mu    sync.Mutex
	codes map[string]*list.Element // of queue, by address
	queue *list.List               // of *sentCode, the oldest first: as all live equally long, the first to expire
}

type sentCode struct {
	address string
	code    string
	expires time.Time
	guesses int // wrong ones so far
}

func newCodeStore(now func() time.Time, max int) *codeStore {
	return &codeStore{now: now, max: max, codes: make(map[string]*list.Element), queue: list.New()}
}

// put keeps a new code for the address, in place of the one before. It returns false if the store is full.
func (s *codeStore) put(address, code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.dropExpiredLocked(now)
	s.dropLocked(address)
	if len(s.codes) >= s.max {
		return false
	}
	s.codes[address] = s.queue.PushBack(&sentCode{address: address, code: code, expires: now.Add(codeLifetime)})
	return true
}

// use reports whether code is the live code of the address, and if so drops it.
//
// The limit on the handler bounds the guesses. The store bounds them too, for a limiter that fails open while its
// Redis is away must not open the codes: a code dies of its fifth wrong guess.
func (s *codeStore) use(address, code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpiredLocked(s.now())
	found, ok := s.codes[address]
	if !ok {
		return false
	}
	sent := found.Value.(*sentCode)
	right := subtle.ConstantTimeCompare([]byte(sent.code), []byte(code)) == 1
	if !right {
		sent.guesses++
	}
	if right || sent.guesses == maxGuesses {
		s.dropLocked(address)
	}
	return right
}

func (s *codeStore) dropExpiredLocked(now time.Time) {
	for e := s.queue.Front(); e != nil; e = s.queue.Front() {
		sent := e.Value.(*sentCode)
		if now.Before(sent.expires) {
			return
		}
		s.dropLocked(sent.address)
	}
}

func (s *codeStore) dropLocked(address string) {
	if e, ok := s.codes[address]; ok {
		s.queue.Remove(e)
		delete(s.codes, address)
	}
}

var million = big.NewInt(1_000_000)

// newCode returns six digits, all of them equally likely.
func newCode() string {
	n, err := rand.Int(rand.Reader, million)
	if err != nil { // rand.Reader does not fail: it would rather end the program
		panic(err)
	}
	return fmt.Sprintf("%06d", n)
}
