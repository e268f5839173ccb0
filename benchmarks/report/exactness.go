package report

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/benchmarks/rivals"
	"github.com/sashlimit/sash/ratelimit"
)

// exactness attacks everybody.
func (r *run) exactness() {
	n, setting := r.Attack.MaxRequests, rivals.Setting{Limit: r.Attack.MaxRequests, Window: r.Attack.Window}
	r.page.title(2, "Exactness: the most that one window admits")
	r.page.say("The limit is %d requests in %v, wherever the window lies. *Burst* asks %d times at once. *Boundary* opens a "+
		"window with one request, asks %d times when nine tenths of it are over and goes on at %d a window; the most of four keys, whose "+
		"windows begin a quarter of a window apart. *Paced* asks steadily, at twice the limit. A number counts what was "+
		"proven from outside, by `ratelimit/oracle`: so many were certainly allowed within one window. ✗ is more than the limit. "+
		"*Needless* are denials where a window certainly had room.", n, r.Attack.Window, 3*n, n*3/2, n*12/5)
	r.page.say("GCRA and token buckets promise a burst and a rate, fixed windows a count by the clock: up to twice the limit in a window is "+
		"what they are, and no fault in their making. It still is not %d in any %v, which is what the tables below compare the price of.", n, r.Attack.Window)

	memory := slices.DeleteFunc(rivals.InProcess(), isFloorOrSame)
	redis := slices.DeleteFunc(rivals.OnRedis(), isFloorOrSame)
	r.inProcess = r.attackAll(memory, func(c rivals.Contender) (rivals.Limiter, error) { return c.Memory(setting) })
	r.inRedis = make(map[string]attack.Report)
	atATime := 3 // more are too many for a small machine to be attacked in earnest
	if r.Shared {
		atATime = len(redis)
	}
	for some := range slices.Chunk(redis, atATime) {
		for name, report := range r.attackAll(some, func(c rivals.Contender) (rivals.Limiter, error) { return c.Redis(setting, r.redis) }) {
			r.inRedis[name] = report
		}
	}
	r.exactTable("In process", memory, r.inProcess)
	r.exactTable("On Redis", redis, r.inRedis)
	for _, found := range []map[string]attack.Report{r.inProcess, r.inRedis} {
		if r.wrong(rivals.Sash, found) {
			r.t.Errorf("%s admits more than its limit: %+v", rivals.Sash, found[rivals.Sash])
		}
	}
}

// isFloorOrSame reports whether there is nothing to find out: it keeps no limit, or is known by another name.
func isFloorOrSame(c rivals.Contender) bool { return c.Role == rivals.Floor || c.Exact != "" }

// attackAll attacks contenders at the same time.
func (r *run) attackAll(list []rivals.Contender, start func(rivals.Contender) (rivals.Limiter, error)) map[string]attack.Report {
	return together(r, list, start, func(name string, l rivals.Limiter) attack.Report { return attack.On(l, name+":", r.Attack) })
}

// together starts contenders and asks something of all of them at the same time.
func together[T any](r *run, list []rivals.Contender, start func(rivals.Contender) (rivals.Limiter, error), ask func(name string, l rivals.Limiter) T) map[string]T {
	var (
		mu      sync.Mutex
		all     sync.WaitGroup
		answers = make(map[string]T)
	)
	release, err := r.lock()
	if err != nil {
		r.t.Fatal(err)
	}
	defer release()
	for _, c := range list {
		l, err := start(c)
		if err != nil {
			r.t.Errorf("%s: %v", c.Name, err)
			continue
		}
		defer rivals.Close(l)
		all.Go(func() {
			answer := ask(c.Name, l) // some share the server, and their prefix
			mu.Lock()
			defer mu.Unlock()
			answers[c.Name] = answer
		})
	}
	all.Wait()
	return answers
}

func (r *run) exactTable(title string, list []rivals.Contender, reports map[string]attack.Report) {
	var rows [][]string
	for _, c := range list {
		report, ok := reports[c.Name]
		if !ok {
			continue
		}
		worst := report.Worst()
		failed := ""
		if worst.Failed > 0 {
			failed = ", " + strconv.Itoa(worst.Failed) + " calls failed"
		}
		rows = append(rows, []string{called(c.Name), c.Algorithm, r.mark(report.Burst.Most), r.mark(report.Boundary.Most),
			r.mark(report.Paced.Most), strconv.Itoa(worst.Needless) + " of " + strconv.Itoa(worst.Denied) + failed})
	}
	r.page.title(3, "%s", title)
	r.page.table(2, []string{"contender", "algorithm", "burst", "boundary", "paced", "needless denials"}, rows)
}

// pacedRun is what the articles measured: a call every 8 ms, at a limit of 100 in a second.
func pacedRun(name string, l rivals.Limiter, calls int) attack.Found {
	return attack.Pace(l, name+":articles", ratelimit.Limit{MaxRequests: 100, Window: time.Second}, 8*time.Millisecond, calls)
}
