package sash_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// What several processes do that share a Redis, and what a process leaves behind in it.

func TestOfTwoProcessesTheOneThatIsCutOffDecidesAloneAndEachKeepsTheLimit(t *testing.T) {
	inParallel(t)
	s := newScene(t, fault{befall: func(s *scene) func() {
		s.proxy.DropRequests()
		return s.proxy.Pass
	}})
	var near, far *service
	s.play(func() {
		near = s.process("near", redis.NewClient(&redis.Options{Addr: s.server.Addr()}), longTimeout)
		far = s.process("far", s.connect(), shortTimeout)
	})
	near.mustHaveAskedTheStoreAlways()
	far.mustHaveDecidedWithoutTheStore()
	s.mustAllowTogether(2, near, far)
}

func TestAStoreThatComesBackEmptyAllowsEachOfTwoProcessesNoMoreThanTheLimit(t *testing.T) {
	inParallel(t)
	s := newScene(t, fault{stage: withoutProxy, befall: func(s *scene) func() {
		s.server.Kill()
		return s.server.Restart
	}})
	var one, two *service
	s.play(func() {
		one = s.process("one", s.connect(), longTimeout)
		two = s.process("two", s.connect(), longTimeout)
	})
	one.mustHaveDecidedWithoutTheStore()
	two.mustHaveDecidedWithoutTheStore()
	s.mustAllowTogether(2, one, two)
}

// process opens one of several applications that share their keys.
func (s *scene) process(name string, client redis.UniversalClient, timeout time.Duration) *service {
	s.Helper()
	v := s.serve("net/http", "shared", client, ratelimit.Config{OnFailure: ratelimit.FailLocal, Timeout: timeout})
	v.name = name
	return v
}

// mustAllowTogether has the oracle judge processes: each by the limit, together by so many times the limit.
func (s *scene) mustAllowTogether(times int, processes ...*service) {
	s.Helper()
	for _, p := range processes {
		p.mustAnswer()
		if report := oracle.Check(counted(p), hotLimit.MaxRequests, hotLimit.Window); report.Verdict != oracle.Lawful {
			s.Errorf("%s: %v", p.name, report)
		}
	}
	if report := oracle.Check(counted(processes...), times*hotLimit.MaxRequests, hotLimit.Window); report.Verdict != oracle.Lawful {
		s.Errorf("together: %v", report)
	}
}

func TestWhatAProcessHasAllowedAloneItTellsTheStoreOnceThatIsBack(t *testing.T) {
	inParallel(t)
	s := newScene(t, fault{})
	lim := newRedisLimiter(t, s.connect().(*redis.Client), ratelimit.Config{OnFailure: ratelimit.FailLocal})
	heal := s.server.MakeReadOnly()
	const keys = 300
	alone := make(map[string]string) // by key the request's id
	for i := range keys {
		key := fmt.Sprint("k", i)
		d, err := lim.Allow(t.Context(), key, scarce)
		if err != nil || d.Reason != ratelimit.FailedLocal {
			t.Fatalf("%+v, %v", d, err)
		}
		alone[key] = d.Ticket.ID.String()
	}
	heal()
	client := s.server.Client()
	for late := time.Now().Add(eventually); s.keys(s.server) < keys; time.Sleep(beat) {
		if _, err := lim.Allow(t.Context(), "k0", scarce); err != nil || time.Now().After(late) { // which begins a probe
			t.Fatalf("it has been told of %d keys, want %d; %v", s.keys(s.server), keys, err)
		}
	}
	for key, id := range alone {
		if log := client.ZRange(t.Context(), "rate_limit:"+key, 0, -1).Val(); !slices.Contains(log, id) {
			t.Errorf("%s: the store holds %v, want %s", key, log, id)
		}
	}
}

// The requests are under way when the server freezes: it executes them when it is thawed, and nobody hears of it.
func TestARequestThatWasNotAnsweredIsChargedOnce(t *testing.T) {
	inParallel(t)
	for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		t.Run(policy.String(), func(t *testing.T) {
			s := newScene(t, fault{stage: withoutProxy})
			v := s.serve("gin", "app", s.connect(), ratelimit.Config{OnFailure: policy, Timeout: shortTimeout})
			together(simultaneous, func() { v.visit("warm") }) // makes the connections
			s.server.Freeze()
			together(simultaneous, func() { v.visit(hotKey) })
			s.server.Thaw()
			s.ended.Store(int64(s.now()))
			s.await("the store to decide again", func(v *service) bool {
				v.visit("again")
				return v.back.Load() > 0
			})
			charged := func() []string { return s.server.Client().ZRange(t.Context(), v.logOf(hotKey), 0, -1).Val() }
			if policy == ratelimit.FailLocal {
				s.await("the store to be told", func(v *service) bool { return len(charged()) == simultaneous })
			}
			s.close()
			mustCharge(t, v, charged())
		})
	}
}

const simultaneous = 10

// mustCharge compares what was allowed on the hot key with the ids in its log.
func mustCharge(t *testing.T, v *service, charged []string) {
	t.Helper()
	if n := len(charged); n < 3 || n > simultaneous {
		t.Errorf("%d requests are charged of %d: want one each of those that were sent, 3 or more", n, simultaneous)
	}
	if v.policy != ratelimit.FailLocal {
		return
	}
	for _, got := range v.visits {
		if id := got.decision.Ticket.ID.String(); got.key == hotKey && !slices.Contains(charged, id) {
			t.Errorf("%v is allowed, and not charged: %v", id, charged)
		}
	}
}

// childVariable makes a child of this test binary: it names the Redis to ask.
const childVariable = "SASH_FAULTS_CHILD"

func TestAProcessThatIsKilledLeavesItsCountInTheStore(t *testing.T) {
	if addr := os.Getenv(childVariable); addr != "" {
		askUntilDenied(addr)
		return
	}
	inParallel(t)
	server := redistest.Start(t)
	allowed, killed := 0, 0
	for _, enough := range []int{25, 25, scarce.MaxRequests} {
		child := newChild(t, server)
		if _, err := io.WriteString(child.input, strings.Repeat("ask\n", enough+3)); err != nil { // it is killed while it asks, and soon
			t.Fatal(err)
		}
		for n := 1; child.lines.Scan() && strings.HasPrefix(child.lines.Text(), "allowed"); n++ {
			if allowed++; n == enough {
				child.kill()
				killed++
			}
		}
		child.cmd.Wait() // an error is its death
	}
	if killed != 2 || allowed > scarce.MaxRequests || allowed < scarce.MaxRequests-killed {
		t.Errorf("%d processes are killed, %d requests allowed: want 2, and %d but for what the killed had no time to tell of",
			killed, allowed, scarce.MaxRequests)
	}
	if n := server.Client().ZCard(t.Context(), "rate_limit:"+hotKey).Val(); n != int64(scarce.MaxRequests) {
		t.Errorf("%d requests are charged, want %d", n, scarce.MaxRequests)
	}
}

// scarce is not back before the test is over.
var scarce = ratelimit.Limit{MaxRequests: 100, Window: time.Hour}

// askUntilDenied asks once for each line of its input, and tells of every request that is allowed as soon as it is.
func askUntilDenied(addr string) {
	ask := childLimiter(addr, longTimeout)
	for told := bufio.NewScanner(os.Stdin); told.Scan() && ask(scarce).Allowed; {
		fmt.Println("allowed")
	}
	fmt.Println("denied")
}

func childLimiter(addr string, timeout time.Duration) (ask func(ratelimit.Limit) ratelimit.Decision) {
	logging.Disable()
	lim, err := ratelimit.New(ratelimit.Config{
		Store:     redisstore.New(redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})),
		OnFailure: ratelimit.FailLocal, Timeout: timeout,
	})
	if err != nil {
		panic(err)
	}
	return func(limit ratelimit.Limit) ratelimit.Decision {
		d, err := lim.Allow(context.Background(), hotKey, limit)
		if err != nil {
			panic(err)
		}
		return d
	}
}

// The child judges itself: its clock goes on while it does not.
func TestAProcessThatWasSuspendedActsOnNoStaleDecision(t *testing.T) {
	if addr := os.Getenv(childVariable); addr != "" {
		askUntilTold(addr)
		return
	}
	inParallel(t)
	child := newChild(t, redistest.Start(t))
	for range 3 {
		time.Sleep(2 * brief.Window / 3)
		child.signal(syscall.SIGSTOP)
		time.Sleep(2 * brief.Window)
		child.signal(syscall.SIGCONT)
	}
	time.Sleep(brief.Window)
	child.input.Close()
	said, err := io.ReadAll(child.output)
	if err := child.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	if err != nil || !bytes.HasPrefix(said, []byte("lawful")) || bytes.Contains(said, []byte(" 0 allowed")) {
		t.Errorf("%v: %s", err, said)
	}
}

var brief = ratelimit.Limit{MaxRequests: 20, Window: 500 * time.Millisecond}

// askUntilTold asks as eight clients, until its input ends, and prints what the oracle says of it.
func askUntilTold(addr string) {
	ask, rec := childLimiter(addr, shortTimeout), oracle.NewRecorder()
	quit := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(quit) }()
	together(8, func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if call := rec.Begin(); ask(brief).Allowed {
				call.Allowed()
			} else {
				call.Doubtful() // it is not the denials that are judged
			}
		}
	})
	h := rec.History()
	h.Clock = oracle.Clock{Drift: clocks.Drift, Tick: shortTimeout} // as late as an answer can be
	fmt.Println(oracle.Check(h, brief.MaxRequests, brief.Window))
}

// child is a process of its own that runs the test from which it was made.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.WriteCloser
	output io.Reader
	lines  *bufio.Scanner // of the output
}

func newChild(t *testing.T, server *redistest.Server) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childVariable+"="+server.Addr())
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{t, cmd, input, output, bufio.NewScanner(output)}
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Errorf("%v: %v", sig, err)
	}
}
