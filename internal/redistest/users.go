package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// AddUser gives the server a user that may do what the ACL rules say, and nothing else, instead of one of that name. A
// Restart forgets it.
func (s *Server) AddUser(name, password string, rules ...string) {
	s.t.Helper()
	command := []any{"ACL", "SETUSER", name, "reset", "on", ">" + password}
	for _, rule := range rules {
		command = append(command, rule)
	}
	client := s.client()
	defer client.Close()
	if err := client.Do(context.Background(), command...).Err(); err != nil {
		s.t.Fatalf("redistest: %v: %v", command, err)
	}
}

// ClientAs returns a Client of a user.
func (s *Server) ClientAs(name, password string) *redis.Client {
	o := s.Options()
	o.Username, o.Password = name, password
	return s.clientOf(o)
}
