package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

var (
	threePerMinute = ratelimit.Limit{MaxRequests: 3, Window: time.Minute}
	fivePerHour    = ratelimit.Limit{MaxRequests: 5, Window: time.Hour}
)

func TestTheLogIsAZSetOfUUIDsThatExpiresAfterTwiceTheLongestWindow(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	limits := []ratelimit.Limit{threePerMinute, {MaxRequests: 9, Window: 90*time.Minute + 500*time.Microsecond}}
	before := serverTime(t, client)
	d := take(t, redisstore.New(client), ratelimit.Claim{Key: "send:bob", Limits: limits, Cost: 2})[0]
	after := serverTime(t, client)

	log := client.ZRangeWithScores(t.Context(), "rate_limit:send:bob", 0, -1).Val()
	if len(log) != 2 || log[0].Member != d.Ticket.ID.String() || log[1].Member != d.Ticket.ID.String()+":2" {
		t.Fatalf("the log is %v, want the two entries of %v", log, d.Ticket)
	}
	for _, entry := range log {
		if at := time.UnixMicro(int64(entry.Score)); at.Before(before) || at.After(after) {
			t.Errorf("the entry is scored %v, want the server's time, %v to %v", at, before, after)
		}
	}
	const ttl = 3*time.Hour + time.Millisecond // two windows, rounded up
	if got := client.PTTL(t.Context(), "rate_limit:send:bob").Val(); got > ttl || got < ttl-time.Minute {
		t.Errorf("the TTL is %v, want %v less what has passed", got, ttl)
	}
}

func TestALogLivesAWindowAndAHalfAfterEveryWrite(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client)
	claim := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{{MaxRequests: 100, Window: time.Minute}}, Cost: 1}
	ttl := func() time.Duration { return client.PTTL(t.Context(), "rate_limit:k").Val() }
	age := func(d time.Duration) { // for the server's clock and for its keys
		b.Advance(d)
		client.PExpire(t.Context(), "rate_limit:k", ttl()-d)
	}
	for range 20 {
		take(t, b.Store.(*redisstore.Store), claim)
		if got := ttl(); got < 89*time.Second || got > 2*time.Minute {
			t.Fatalf("the TTL is %v, want one and a half windows to two", got)
		}
		age(7 * time.Second)
	}
	claim.Limits[0].MaxRequests = 1
	before := ttl()
	take(t, b.Store.(*redisstore.Store), claim) // denied
	if got := ttl(); got > before {
		t.Errorf("a denial has set the TTL, from %v to %v", before, got)
	}
}

func TestALookWritesNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	take(t, redisstore.New(client), ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{threePerMinute}})
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("it wrote %v", keys)
	}
}

func TestADecisionIsOneRoundTripHoweverManyKeysAndLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	counter := &processed{Client: server.Client()}
	store := redisstore.New(counter.Client)
	take(t, store, claimOn("warm-up")) // loads the script
	counter.Client.AddHook(counter)
	take(t, store,
		ratelimit.Claim{Key: "a", Limits: []ratelimit.Limit{threePerMinute, fivePerHour}, Cost: 2},
		ratelimit.Claim{Key: "b", Limits: []ratelimit.Limit{threePerMinute, fivePerHour}, Cost: 1})
	if n := counter.commands.Load(); n != 1 {
		t.Errorf("it sent %d commands, want 1", n)
	}
}

func TestAServerThatForgetsItsScriptsIsTaughtAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := redisstore.New(client)
	for i := range 3 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if d := take(t, store, claimOn("k"))[0]; d.Remaining != 2-i {
			t.Errorf("request %d: %+v", i+1, d)
		}
	}
}

func TestAPrefixKeepsApplicationsApart(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := redisstore.New(client)
	shop := store.WithPrefix("my {shop}")
	take(t, store, claimOn("k"))
	if d := take(t, shop, claimOn("k"))[0]; d.Remaining != 2 {
		t.Errorf("the shop shares a log: %+v", d)
	}
	if n := client.Exists(t.Context(), "rate_limit:k", "my%20%7Bshop%7D:k").Val(); n != 2 {
		t.Errorf("the keys are %v", client.Keys(t.Context(), "*").Val())
	}
}

func TestTwoClientsAtOneServerShareTheirLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := redisstore.New(server.Client()), redisstore.New(server.Client())
	for i := range 3 {
		store := []*redisstore.Store{one, two}[i%2]
		if d := take(t, store, claimOn("k"))[0]; d.Remaining != 2-i {
			t.Errorf("request %d: %+v", i+1, d)
		}
	}
}

// A proxy passes the request on and loses the reply. The store asks once more, and go-redis never does.
func TestALostReplyIsAskedForOnceMoreAndChargesOneEntry(t *testing.T) {
	t.Parallel()
	for lost, wantErr := range map[int32]bool{1: false, 2: true} {
		server := redistest.Start(t)
		take(t, redisstore.New(server.Client()), claimOn("before"))                                       // the server knows the script
		client := redis.NewClient(&redis.Options{Addr: loseReplies(t, server.Addr(), lost), Protocol: 2}) // retries by default
		t.Cleanup(func() { client.Close() })

		decisions := make([]ratelimit.Decision, 1)
		err := redisstore.New(client).Take(t.Context(), uuid.New(), []ratelimit.Claim{{
			Key: "k", Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}, Cost: 1,
		}}, decisions)
		if (err != nil) != wantErr {
			t.Errorf("%d replies are lost: got the error %v", lost, err)
		}
		if err == nil && decisions[0].Reason != ratelimit.Counted {
			t.Errorf("the request is denied by its own entry: %+v", decisions[0])
		}
		direct := server.Client()
		if n := direct.ZCard(t.Context(), "rate_limit:k").Val(); n != 1 {
			t.Errorf("%d replies are lost: %d entries are charged, want 1", lost, n)
		}
		stats := direct.Info(t.Context(), "commandstats").Val()
		if !strings.Contains(stats, "cmdstat_evalsha:calls=3,") { // one is that of before
			t.Errorf("%d replies are lost: the script was not sent twice:\n%s", lost, stats)
		}
	}
}

func TestAProgramStartsWhileRedisIsDownAndLimitsOnceItIsUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop()
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(server.Client()), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := lim.Allow(t.Context(), "k", threePerMinute); err != nil || d.Reason != ratelimit.FailedOpen {
		t.Errorf("while it is down: %+v, %v", d, err)
	}
	server.Restart()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) { // the pool finds out by itself, within a second or so
		if d, _ := lim.Allow(t.Context(), "k", threePerMinute); d.Reason == ratelimit.Counted {
			return
		}
	}
	t.Error("it never came back")
}

func TestAFrozenServerHoldsUpNoDecision(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	patient := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Hour}) // nobody but us gives up
	t.Cleanup(func() { patient.Close() })
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(patient), Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	for range 3 {
		if d, err := lim.Allow(t.Context(), "k", threePerMinute); err != nil || d.Reason != ratelimit.FailedOpen {
			t.Errorf("got %+v, %v", d, err)
		}
	}
	server.Thaw()
}

func TestErrorsOfRedisSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	reach := func(password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, MaxRetries: -1})
		t.Cleanup(func() { c.Close() })
		return c
	}
	admin := reach("secret")
	admin.Set(t.Context(), "rate_limit:taken", "text", 0)
	for name, test := range map[string]struct {
		client *redis.Client
		key    string
		want   []string
	}{
		"a key that holds something else": {admin, "taken", []string{"WithPrefix", "WRONGTYPE"}},
		"no password":                     {reach(""), "k", []string{"redisstore: ", "NOAUTH"}},
	} {
		err := redisstore.New(test.client).Take(t.Context(), uuid.New(), []ratelimit.Claim{claimOn(test.key)}, make([]ratelimit.Decision, 1))
		for _, want := range test.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
}

func TestOnAClusterClaimsInDifferentSlotsAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	store := redisstore.New(cluster.Client())
	once := []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}
	a := ratelimit.Claim{Key: "a", Limits: []ratelimit.Limit{fivePerHour}, Cost: 2}
	b := ratelimit.Claim{Key: "b", Limits: once, Cost: 1}
	c := ratelimit.Claim{Key: "c", Limits: []ratelimit.Limit{fivePerHour}, Cost: 1}

	got := take(t, store, a, b, c)
	if got[0].Remaining != 3 || got[1].Remaining != 0 || got[2].Remaining != 4 {
		t.Errorf("the first request: %+v", got)
	}
	got = take(t, store, a, b, c)
	for i, want := range []ratelimit.Reason{ratelimit.Withheld, ratelimit.Exhausted, ratelimit.Withheld} {
		if got[i].Reason != want || got[i].Ticket != (ratelimit.Ticket{}) {
			t.Errorf("claim %d of a request that b denies: %+v, want %v", i, got[i], want)
		}
	}
	if got[0].Remaining != 3 || got[2].Remaining != 4 {
		t.Errorf("the denied request was charged: %+v", got)
	}
	if err := store.Reset(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got = take(t, store, a, b, c); got[1].Reason != ratelimit.Counted {
		t.Errorf("after a Reset: %+v", got)
	}
	stranger := redis.NewClient(&redis.Options{Addr: cluster.Nodes[0].Addr()})
	t.Cleanup(func() { stranger.Close() })
	plain, moved := redisstore.New(stranger), ""
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // of six keys some lie elsewhere
		if err := plain.Reset(t.Context(), key); err != nil {
			moved = err.Error()
		}
	}
	if !strings.Contains(moved, "NewClusterClient") {
		t.Errorf("a plain client of a Cluster got %q, want to be told which client to use", moved)
	}
}

// The exhausted key's server has said so; that another key's server is down does not make a free pass of it.
func TestOnAClusterADenialStandsWhateverBecomesOfTheOtherKeys(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: 4 * time.Second}) // less than a read's
	if err != nil {
		t.Fatal(err)
	}
	exhausted := claimOn("exhausted")
	exhausted.Cost = 3
	lim.AllowAll(t.Context(), exhausted)
	exhausted.Cost = 1
	elsewhere := keyOnAnotherNode(t, client, "rate_limit:exhausted")
	node, err := client.MasterForKey(t.Context(), "rate_limit:"+elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cluster.Nodes, func(n *redistest.Server) bool { return n.Addr() == node.Options().Addr })
	stands := func(what string) {
		decisions, err := lim.AllowAll(t.Context(), claimOn(elsewhere), exhausted)
		if err != nil || decisions[1].Reason != ratelimit.Exhausted || decisions[0].Reason != ratelimit.Withheld {
			t.Errorf("%s: got %+v, %v", what, decisions, err)
		}
	}
	cluster.Nodes[i].Freeze()
	stands("the other key's server is silent")
	cluster.Nodes[i].Thaw()
	cluster.Nodes[i].Stop()
	stands("the other key's server is down")
}

func TestADenialIsToldInHalfTheTimeHoweverManyOtherKeysHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(moody{}), Timeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		decisions, err := lim.AllowAll(t.Context(), claimOn("hangs1"), claimOn("denied"), claimOn("hangs2"), claimOn("panics"))
		if err != nil || decisions[1].Reason != ratelimit.Exhausted || decisions[0].Reason != ratelimit.Withheld {
			t.Errorf("got %+v, %v", decisions, err)
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("it took %v of virtual time, want half the Timeout", took)
		}
		if d, err := lim.AllowAll(t.Context(), claimOn("panics"), claimOn("panics2")); err != nil || d[0].Reason != ratelimit.FailedOpen {
			t.Errorf("a client that panics: %+v, %v", d, err)
		}
		if err := lim.Close(); err != nil { // waits for what is under way
			t.Error(err)
		}
	})
}

func TestOfSeveralServersTheErrorSaysWhichHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		claims := []ratelimit.Claim{claimOn("well"), claimOn("panics"), claimOn("well too")}
		err := redisstore.New(moody{}).Take(ctx, uuid.New(), claims, make([]ratelimit.Decision, 3))
		errs, ok := errors.AsType[ratelimit.ClaimErrors](err)
		if !ok || len(errs) != 3 || errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("got %#v", err)
		}
	})
}

func TestAnAnswerToAnotherRequestIsNotBelieved(t *testing.T) {
	t.Parallel()
	err := redisstore.New(confused{}).Take(t.Context(), uuid.New(), []ratelimit.Claim{claimOn("k")}, make([]ratelimit.Decision, 1))
	if err == nil || !strings.Contains(err.Error(), "mixed up its replies") {
		t.Errorf("got %v", err)
	}
}

// confused is a client that returns what somebody else has asked.
type confused struct{}

func (confused) Process(ctx context.Context, cmd redis.Cmder) error {
	cmd.Args()[len(cmd.Args())-1] = uuid.NewString()
	return moody{}.Process(ctx, cmd)
}

func TestCloseInTheMiddleOfADecisionWaitsAndReturns(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	store := redisstore.New(signalling{begun})
	claims := make([]ratelimit.Claim, 500)
	for i := range claims {
		claims[i] = claimOn(fmt.Sprint("k", i))
	}
	closed := make(chan error)
	go func() { <-begun; closed <- store.Close() }()
	if err := store.Take(t.Context(), uuid.New(), claims, make([]ratelimit.Decision, len(claims))); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// signalling is a client that says when it is first asked, and denies.
type signalling struct{ begun chan struct{} }

func (s signalling) Process(ctx context.Context, cmd redis.Cmder) error {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	return moody{}.Process(ctx, cmd)
}

// moody is a client whose answer depends on the key.
type moody struct{}

func (moody) Process(ctx context.Context, cmd redis.Cmder) error {
	switch key := fmt.Sprint(cmd.Args()...); {
	case strings.Contains(key, "hangs"):
		<-ctx.Done()
		return ctx.Err()
	case strings.Contains(key, "panics"):
		panic("a hook is broken")
	case strings.Contains(key, "well"):
		id, err := strconv.ParseInt(lastID(cmd)[24:], 16, 64)
		reply(cmd, id, 1, 1, 0, 0, 0, 1)
		return err
	}
	id, err := strconv.ParseInt(lastID(cmd)[24:], 16, 64)
	if err != nil {
		return err
	}
	reply(cmd, id, 0, 0, 0, 0, 1, 1)
	return nil
}

// lastID is the id that the script answers to.
func lastID(cmd redis.Cmder) string { return fmt.Sprint(cmd.Args()[len(cmd.Args())-1]) }

// reply gives a command its answer: the id, the time, and the rest.
func reply(cmd redis.Cmder, id int64, rest ...int64) {
	cmd.(interface{ SetVal([]int64) }).SetVal(append([]int64{id, start.UnixMicro()}, rest...))
}

// keyOnAnotherNode returns the name of a log that does not lie where key does.
func keyOnAnotherNode(t *testing.T, client *redis.ClusterClient, key string) string {
	t.Helper()
	here, err := client.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		name := fmt.Sprint("k", i)
		there, err := client.MasterForKey(t.Context(), "rate_limit:"+name)
		if err != nil {
			t.Fatal(err)
		}
		if there.Options().Addr != here.Options().Addr {
			return name
		}
	}
	t.Fatal("all keys lie on one node")
	return ""
}

func TestOnARingEachKeyLivesOnOneShard(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": redistest.Start(t).Addr(), "two": redistest.Start(t).Addr(),
	}})
	t.Cleanup(func() { ring.Close() })
	store := redisstore.New(ring)
	for i := range 3 {
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if d := take(t, store, claimOn(key), claimOn(key+"'"))[0]; d.Remaining != 2-i {
				t.Errorf("%s, request %d: %+v", key, i+1, d)
			}
		}
	}
}

func claimOn(key string) ratelimit.Claim {
	return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}
}

func take(t *testing.T, store *redisstore.Store, claims ...ratelimit.Claim) []ratelimit.Decision {
	t.Helper()
	decisions := make([]ratelimit.Decision, len(claims))
	if err := store.Take(t.Context(), uuid.New(), claims, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions
}

func serverTime(t *testing.T, client *redis.Client) time.Time {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// processed is a hook that counts what a client sends.
type processed struct {
	*redis.Client
	commands atomic.Int64
}

func (p *processed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *processed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (p *processed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// loseReplies runs a proxy that cuts a connection when the server answers a script, n times, and returns its address.
func loseReplies(t *testing.T, server string, n int32) string {
	t.Helper()
	var left atomic.Int32
	left.Store(n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go loseReply(client, server, &left)
		}
	}()
	return l.Addr().String()
}

func loseReply(client net.Conn, server string, left *atomic.Int32) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	var script atomic.Bool // one with the whole source, or its hash once the server knows it, is under way
	go io.Copy(upstream, io.TeeReader(client, watch(func(p []byte) {
		if text := strings.ToLower(string(p)); strings.Contains(text, "$7\r\nevalsha\r\n") {
			script.Store(true)
		}
	})))
	reply := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(reply)
		if err != nil || script.Swap(false) && left.Add(-1) >= 0 {
			return
		}
		client.Write(reply[:n])
	}
}

type watch func([]byte)

func (w watch) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestRetryAfterIsExactOnceTheOldestHasBeenRefunded(t *testing.T) {
	t.Parallel()
	b := onRedis(t, redistest.Start(t).Client())
	store := b.Store.(*redisstore.Store)
	one := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{{MaxRequests: 2, Window: 4 * time.Minute, Buckets: 4}}, Cost: 1}
	two := one
	two.Cost = 2
	take(t, store, one)
	b.Advance(3 * time.Minute)
	older := take(t, store, one)[0]
	b.Advance(2 * time.Minute) // the first has left, which the next finds out
	if take(t, store, two)[0].Allowed {
		t.Fatal("3 of 2 were allowed")
	}
	b.Advance(time.Minute)
	take(t, store, one)
	if err := store.Refund(t.Context(), "k", older.Ticket); err != nil {
		t.Fatal(err)
	}
	wait := take(t, store, two)[0].RetryAfter
	b.Advance(wait)
	if !take(t, store, two)[0].Allowed {
		t.Errorf("it is denied after %v, its RetryAfter", wait)
	}
}

func TestALogOutlivesARuleThatKeptLess(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := redisstore.New(client)
	for _, window := range []time.Duration{time.Second, time.Hour} { // the Window has been lengthened
		take(t, store, ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{{MaxRequests: 3, Window: window}}, Cost: 1})
	}
	if got := client.PTTL(t.Context(), "rate_limit:k").Val(); got < 90*time.Minute {
		t.Errorf("the TTL is %v, want one and a half windows or more", got)
	}
}
