package sash_test

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
)

// What befalls a Redis, or the way to it, and what becomes of the requests behind it. Servers and time are real here, so
// that these tests sleep; none of them asserts how long anything takes.

// A fault befalls the Redis of a scene, until it is ended.
type fault struct {
	name   string
	stage  func(*scene) // what the scene needs beside one server
	befall func(*scene) (end func())

	// silent says that nothing but the Timeout ends a request, which has to be short then. For other faults it is long:
	// that the machine is held up for a moment is no fault of a server.
	silent bool

	// atStart says that the fault is there before the first request.
	atStart bool
}

// outages are faults under which the store cannot decide. Those of redistest are some more.
var outages = append([]fault{
	{name: "killed, and empty when it is back", stage: withoutProxy, befall: func(s *scene) func() {
		s.server.Kill()
		return s.server.Restart
	}},
	{name: "down when the programs start", atStart: true, stage: withoutProxy, befall: func(s *scene) func() {
		s.server.Stop()
		return s.server.Restart
	}},
	{name: "frozen", silent: true, befall: func(s *scene) func() {
		s.server.Freeze()
		return s.server.Thaw
	}},
	{name: "slower than the Timeout", silent: true, befall: func(s *scene) func() {
		s.proxy.DelayReplies(3 * shortTimeout)
		return s.proxy.Pass
	}},
	{name: "requests vanish", silent: true, befall: func(s *scene) func() {
		s.proxy.DropRequests()
		return s.proxy.Pass
	}},
	{name: "replies vanish, of what has been executed", silent: true, befall: func(s *scene) func() {
		s.proxy.DropReplies()
		return s.proxy.Pass
	}},
	{name: "every request cuts its connection", befall: func(s *scene) func() {
		s.proxy.LoseRequests(math.MaxInt, "evalsha", "eval")
		return s.proxy.Pass
	}},
	{name: "every reply cuts its connection, and has been executed", befall: func(s *scene) func() {
		s.proxy.LoseReplies(math.MaxInt, "evalsha", "eval")
		return s.proxy.Pass
	}},
	{name: "connections are accepted, and nothing more", silent: true, befall: func(s *scene) func() {
		s.proxy.Blackhole()
		s.proxy.Reset()
		return s.proxy.Pass
	}},
	{name: "connections are refused", befall: func(s *scene) func() {
		s.proxy.Refuse()
		s.proxy.Reset()
		return s.proxy.Pass
	}},
	{name: "it comes and goes", silent: true, befall: func(s *scene) func() {
		down := false
		stop := s.again(flapping, func() {
			if down = !down; down {
				s.proxy.DropRequests()
			} else {
				s.proxy.Pass()
			}
		})
		return func() { stop(); s.proxy.Pass() }
	}},
	{name: "a replica takes its place that has lost the last writes", stage: withReplica, befall: func(s *scene) func() {
		s.must(s.replica.Client().Do(s.Context(), "REPLICAOF", "NO", "ONE").Err())
		time.Sleep(flapping) // what is granted now the replica does not hear of
		if has, had := s.keys(s.replica), s.keys(s.server); has >= had {
			s.Errorf("the replica has %d keys of %d: it has lost nothing", has, had)
		}
		s.server.Kill()
		return func() { s.addr.Store(s.replica.Addr()) }
	}},
	{name: "Sentinel makes a replica the master", silent: true, stage: withSentinel, befall: func(s *scene) func() {
		master := s.sentinel.Master()
		master.Kill()
		return func() { s.sentinel.Successor(master) }
	}},
	{name: "the Cluster is down", silent: true, stage: withCluster, befall: func(s *scene) func() {
		return s.cluster.MakeDown()
	}},
}, answered()...)

// answered are the faults under which the server answers with an error.
func answered() (faults []fault) {
	for _, f := range redistest.Faults {
		silent := f.Error == "" // the client tries again and again, by itself
		faults = append(faults, fault{name: f.Name, silent: silent, befall: func(s *scene) func() { return f.Make(s.server) }})
	}
	return faults
}

// harmless are faults under which every decision is the store's all the same.
var harmless = []fault{
	{name: "slow, but in time", befall: func(s *scene) func() {
		s.proxy.DelayReplies(shortTimeout / 2)
		return s.proxy.Pass
	}},
	{name: "a reply is lost", befall: func(s *scene) func() {
		s.proxy.LoseReplies(1, "evalsha")
		return s.proxy.Pass
	}},
	{name: "it forgets its scripts again and again", befall: func(s *scene) func() {
		admin := s.server.Client()
		return s.again(10*time.Millisecond, func() { admin.ScriptFlush(s.Context()) })
	}},
	{name: "it forgets everything", befall: func(s *scene) func() {
		s.must(s.server.Client().FlushAll(s.Context()).Err())
		return func() {}
	}},
}

const (
	shortTimeout = ratelimit.DefaultTimeout
	longTimeout  = 20 * time.Second

	flapping = 300 * time.Millisecond
)

// Under every fault every application answers as its Policy says, keeps the promise for a key that is asked for all the
// time, decides by its store again as soon as that is back, and leaves nothing behind.
func TestInAnOutageThePolicyDecidesAndAfterItTheStore(t *testing.T) {
	inParallel(t)
	each(t, outages, func(s *scene) {
		s.play(s.everyPolicy)
		for _, service := range s.services {
			service.mustKeepThePromise()
			service.mustHaveDecidedWithoutTheStore()
			service.mustHaveAskedTheStoreOutsideTheOutage()
		}
	})
}

func TestAFaultThatTheStoreGetsOverIsSeenByNobody(t *testing.T) {
	inParallel(t)
	each(t, harmless, func(s *scene) {
		s.play(s.everyPolicy)
		for _, service := range s.services {
			service.mustKeepThePromise()
			service.mustHaveAskedTheStoreAlways()
		}
	})
}

func TestConnectionsThatWereCutWhileTheyWereIdleAreReplacedWithoutAFailure(t *testing.T) {
	inParallel(t)
	s := newScene(t, fault{})
	s.everyPolicy()
	for range 5 {
		for _, v := range s.services {
			together(10, func() { v.visit(hotKey) })
		}
		s.proxy.Reset()
	}
	for _, v := range s.services {
		v.mustKeepThePromise()
		v.mustHaveAskedTheStoreAlways()
	}
}

// However many requests there are: three find out that it fails, and a probe now and then that it still does.
func TestInAnOutageTheStoreIsNotAskedAboutEveryRequest(t *testing.T) {
	inParallel(t)
	for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		s := newScene(t, fault{})
		client, sent := redis.NewClient(s.options()), new(commands)
		client.AddHook(sent)
		v := s.serve("gin", policy.String(), client, ratelimit.Config{OnFailure: policy, Timeout: longTimeout})
		s.server.MakeReadOnly()
		const requests = 1000
		for i := range requests {
			v.visit(strconv.Itoa(i))
		}
		v.mustAnswer()
		if n := sent.Load(); n < 3 || n > requests/10 {
			t.Errorf("%v: about %d requests %d commands were sent", policy, requests, n)
		}
	}
}

// commands counts what a client sends.
type commands struct{ atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// each plays a test for each of faults: several at once, since they mostly wait, and not one for each core.
func each(t *testing.T, faults []fault, test func(*scene)) {
	left := make(chan fault, len(faults))
	for _, f := range faults {
		left <- f
	}
	close(left)
	together(6, func() {
		for f := range left {
			t.Run(f.name, func(t *testing.T) { test(newScene(t, f)) })
		}
	})
}

// withoutProxy lets a server that is down refuse connections, which a proxy accepts.
func withoutProxy(s *scene) { s.addr.Store(s.server.Addr()) }

func withReplica(s *scene) { s.replica = redistest.StartReplica(s.T, s.server) }

func withSentinel(s *scene) {
	s.sentinel = redistest.StartSentinel(s.T, 2)
	s.connect = func() redis.UniversalClient { return s.sentinel.Client() }
}

func withCluster(s *scene) {
	s.cluster = redistest.StartCluster(s.T, 3)
	s.connect = func() redis.UniversalClient { return s.cluster.Client() }
}
