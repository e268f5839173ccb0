package oracle

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// histories is how many random histories each property is tried on.
const histories = 20_000

// bruteLawful tries every combination of whole instants. That is enough for
// intervals and windows of whole length: rounding lawful instants down keeps
// the law, since a difference of at least a whole number stays so.
func bruteLawful(is []Interval, limit int, window time.Duration) bool {
	var place func(decided []time.Duration) bool
	place = func(decided []time.Duration) bool {
		if len(decided) == len(is) {
			return true
		}
		i := is[len(decided)]
		for t := i.Begin; t <= i.End; t++ {
			if next := append(decided, t); obeysLaw(next, limit, window) && place(next) {
				return true
			}
		}
		return false
	}
	return place(nil)
}

// obeysLaw is the law as it is written: count every window that ends with one
// of the instants.
func obeysLaw(instants []time.Duration, limit int, window time.Duration) bool {
	for _, t := range instants {
		n := 0
		for _, u := range instants {
			if t-window < u && u <= t {
				n++
			}
		}
		if n > limit {
			return false
		}
	}
	return true
}

// small returns a history of up to seven requests in whole, small times, with
// its law.
func small(rng *rand.Rand) (h History, limit int, window time.Duration) {
	span := 1 + rng.IntN(10)
	length := 1 + rng.IntN(6)
	for range rng.IntN(8) {
		b := time.Duration(rng.IntN(span))
		h.Allowed = append(h.Allowed, Interval{b, b + time.Duration(rng.IntN(length))})
	}
	return h, 1 + rng.IntN(3), time.Duration(1 + rng.IntN(5))
}

func eachSmall(t *testing.T, seed uint64, f func(h History, limit int, window time.Duration)) {
	t.Helper()
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range histories {
		h, limit, window := small(rng)
		f(h, limit, window)
		if t.Failed() {
			t.Fatalf("history %v, %d per %d", h.Allowed, limit, window)
		}
	}
}

func TestCheckDecidesWhatBruteForceDecides(t *testing.T) {
	verdicts := map[string]int{}
	eachSmall(t, 1, func(h History, limit int, window time.Duration) {
		r := Check(h, limit, window)
		if lawful := bruteLawful(h.Allowed, limit, window); (r.Verdict == Lawful) != lawful || r.Verdict == Unknown {
			t.Errorf("lawful is %v, but: %v", lawful, r)
		}
		for i, instant := range r.Instants {
			if a := h.Allowed[i]; instant < a.Begin || instant > a.End {
				t.Errorf("request %d is decided at %v", i, instant)
			}
		}
		if !obeysLaw(r.Instants, limit, window) {
			t.Errorf("instants %v break the law", r.Instants)
		}
		verdicts[layer(r)]++
	})
	for _, name := range []string{"lawful", "violated, by certificate", "violated, by complete"} {
		if verdicts[name] < histories/1000 {
			t.Errorf("too few histories are %s to prove anything: %v", name, verdicts)
		}
	}
}

// layer tells by the proof how a verdict was reached.
func layer(r Report) string {
	switch {
	case r.Verdict == Violated && strings.HasPrefix(r.Proof, "no instants"):
		return "violated, by complete"
	case r.Verdict == Violated:
		return "violated, by certificate"
	default:
		return r.Verdict.String()
	}
}

func TestCompleteDecidesWhatBruteForceDecides(t *testing.T) {
	eachSmall(t, 3, func(h History, limit int, window time.Duration) {
		gs := grants(h)
		starts, contradiction := complete(gs, limit, window)
		lawful := bruteLawful(h.Allowed, limit, window)
		if lawful != (contradiction == "") {
			t.Errorf("lawful is %v, but: %q", lawful, contradiction)
		}
		if lawful {
			mustObey(t, gs, starts, limit, window)
		}
	})
}

func TestTheCertificateNeverAccusesALawfulHistory(t *testing.T) {
	eachSmall(t, 4, func(h History, limit int, window time.Duration) {
		over, _ := certificate(grants(h), limit, window)
		if over == nil {
			return
		}
		if bruteLawful(h.Allowed, limit, window) {
			t.Errorf("lawful, but: %v", over)
		}
		if len(over.inside) <= over.windows*limit {
			t.Errorf("this is no proof: %v", over)
		}
		for _, g := range over.inside {
			if g.Begin < over.from || g.End >= over.from+time.Duration(over.windows)*window {
				t.Errorf("request %d is not inside: %v", g.id, over)
			}
		}
	})
}

func TestTheWitnessIsValidAndFindsInstantsWhereThereAreSome(t *testing.T) {
	eachSmall(t, 5, func(h History, limit int, window time.Duration) {
		gs := grants(h)
		starts, _ := witness(gs, limit, window)
		if lawful := bruteLawful(h.Allowed, limit, window); (starts != nil) != lawful {
			t.Errorf("lawful is %v, instants %v", lawful, starts)
		}
		if starts != nil {
			mustObey(t, gs, starts, limit, window)
		}
	})
}

func TestWithoutGoingBackTheWitnessIsExactWhenNoRequestOvertakesAnother(t *testing.T) {
	eachSmall(t, 6, func(h History, limit int, window time.Duration) {
		gs := grants(h)
		var end time.Duration
		for i := range gs { // make the Ends follow the order of the Begins
			end = max(end, gs[i].End)
			gs[i].End = end
			h.Allowed[gs[i].id] = gs[i].Interval
		}
		found := true
		s := schedule{limit: limit, window: window, queue: queue{gs: gs}}
		for found && len(s.order) < len(gs) {
			_, found = s.decideNext()
		}
		if lawful := bruteLawful(h.Allowed, limit, window); found != lawful {
			t.Errorf("lawful is %v, the witness says %v", lawful, found)
		}
	})
}

func TestADenialIsFalseIfNoInstantExcusesIt(t *testing.T) {
	eachSmall(t, 7, func(h History, limit int, window time.Duration) {
		rng := rand.New(rand.NewPCG(uint64(len(h.Allowed)), uint64(window)))
		b := time.Duration(rng.IntN(12))
		h.Denied = []Interval{{b, b + time.Duration(rng.IntN(5))}}
		h.Allowed, h.Doubtful = h.Allowed[:len(h.Allowed)/2], h.Allowed[len(h.Allowed)/2:]
		want := 0
		for t := h.Denied[0].Begin; t <= h.Denied[0].End; t++ {
			n := 0
			for _, g := range slices.Concat(h.Allowed, h.Doubtful) {
				if g.Begin <= t && g.End > t-window {
					n++
				}
			}
			want = max(want, n)
		}
		got := Check(h, limit, window).FalseDenials
		if (len(got) == 1) != (want < limit) {
			t.Errorf("at most %d of %d can be counted, but: %v; doubtful %v, denied %v", want, limit, got, h.Doubtful, h.Denied)
		}
		if len(got) == 1 && got[0].AtMost != want {
			t.Errorf("at most %d can be counted, not %d", want, got[0].AtMost)
		}
	})
}

func mustObey(t *testing.T, gs []grant, starts []time.Duration, limit int, window time.Duration) {
	t.Helper()
	for i, g := range gs {
		if starts[i] < g.Begin || starts[i] > g.End {
			t.Errorf("%v is decided at %v", g.Interval, starts[i])
		}
	}
	if !obeysLaw(starts, limit, window) {
		t.Errorf("instants %v break the law", starts)
	}
}
