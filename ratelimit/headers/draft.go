package headers

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// setDraft sets both fields of the draft. Alone on a response they are two halves of one string.
func (l level) setDraft(h http.Header) {
	if len(h[fieldPolicy]) > 0 || len(h[fieldLimit]) > 0 {
		l.mergeDraft(h)
		return
	}
	if l.isOne() { // the common case: the policy has been written already
		q := &l.quotas[0]
		h[fieldPolicy] = q.Policies[0].value
		h[fieldLimit] = q.limit()
		return
	}
	var space [512]byte
	buf := l.appendPolicies(space[:0], draftItem)
	end := len(buf)
	for n, i := range l.known {
		if n > 0 {
			buf = append(buf, ", "...)
		}
		buf = l.quotas[i].appendLimit(buf)
	}
	text := string(buf)
	setValue(h, fieldPolicy, []string{text[:end]})
	setValue(h, fieldLimit, []string{text[end:]})
}

// isOne tells that there is one policy, and its state is known.
func (l level) isOne() bool {
	return len(l.quotas) == 1 && len(l.known) == 1 && len(l.quotas[0].Policies) == 1
}

// limit writes what the binding policy has left. Who is denied asks again and again, and is mostly told the same.
func (q *Quota) limit() []string {
	reset := q.reset()
	if q.left() > 0 || reset == 0 {
		var space [128]byte
		return []string{string(q.appendLimit(space[:0]))}
	}
	place := q.binding().spent.place(reset)
	if w := place.Load(); w != nil && w.reset == reset {
		return w.value
	}
	w := &written{reset, []string{string(q.appendLimit(nil))}}
	place.Store(w)
	return w.value
}

// appendLimit appends what the binding policy has left: "login";r=2;t=57 (draft 11, section 4.1).
func (q *Quota) appendLimit(dst []byte) []byte {
	dst = append(dst, q.binding().quoted...)
	dst = append(dst, ";r="...)
	dst = strconv.AppendInt(dst, q.left(), 10)
	if reset := q.reset(); reset > 0 {
		dst = append(dst, ";t="...)
		dst = strconv.AppendInt(dst, reset, 10)
	}
	return dst
}

// itemOf is how a dialect lists a policy, or "" if it cannot.
type itemOf func(*Policy) string

func draftItem(p *Policy) string  { return p.item }
func draft6Item(p *Policy) string { return p.item6 }

// eachPolicy hands over how each policy is listed: that of the tightest quota, then the others as they were
// declared, so that the field stays as constant as it can (draft 11, section 3).
func (l level) eachPolicy(item itemOf, do func(text string)) {
	lead := l.tightest()
	if lead != nil {
		do(item(lead.binding()))
	}
	for i := range l.quotas {
		q := &l.quotas[i]
		for j := range q.Policies {
			if q != lead || j != q.Binding {
				do(item(&q.Policies[j]))
			}
		}
	}
}

// appendPolicies appends the policies of one level.
func (l level) appendPolicies(dst []byte, item itemOf) []byte {
	start := len(dst)
	l.eachPolicy(item, func(text string) {
		if text == "" {
			return
		}
		if len(dst) > start {
			dst = append(dst, ", "...)
		}
		dst = append(dst, text...)
	})
	return dst
}

// policyTexts are the policies of one level, one by one.
func (l level) policyTexts(item itemOf) []string {
	var texts []string
	l.eachPolicy(item, func(text string) {
		if text != "" {
			texts = append(texts, text)
		}
	})
	return texts
}

// setValue sets a field, unless there is nothing to say.
func setValue(h http.Header, field string, value []string) {
	if value[0] != "" {
		h[field] = value
	}
}

// leftItem is an item of RateLimit, from either level.
type leftItem struct {
	text        string
	name        string
	ours        bool
	denied      bool // an outer level denied nothing, or we were not asked
	left, reset int64
}

// tightness orders items as ratelimit.Decision.Binds orders decisions, as far as a header tells.
func tightness(a, b leftItem) int {
	switch {
	case a.denied && b.denied:
		return 0 // both are ours, and in order
	case a.denied:
		return -1
	case b.denied:
		return 1
	}
	return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(b.reset, a.reset))
}

// mergeDraft makes one list of what the outer levels have set and of what we have to say.
func (l level) mergeDraft(h http.Header) {
	outerPolicies, _ := readList(h, fieldPolicy, draftPolicy) // malformed: as if it were absent
	outerLimits, _ := readList(h, fieldLimit, draftLimit)

	var items []leftItem
	for _, o := range outerLimits {
		items = append(items, leftItem{text: o.text, name: o.value.Name, left: o.value.Remaining, reset: Seconds(o.value.ResetAfter)})
	}
	for _, i := range l.known {
		q := &l.quotas[i]
		items = append(items, leftItem{string(q.appendLimit(nil)), q.binding().name, true, !q.Decision.Allowed, q.left(), q.reset()})
	}
	slices.SortStableFunc(items, tightness)

	outer := textsOf(outerPolicies)
	ours := l.policyTexts(draftItem)
	setValue(h, fieldPolicy, []string{mergePolicies(outer, ours, len(items) == 0 || !items[0].ours)})

	both := make(map[string]bool) // by name, whether both levels list the policy in the same words
	for _, o := range outerPolicies {
		both[o.value.Name] = both[o.value.Name] || slices.Contains(ours, o.text)
	}
	var limits []string
	seen := make(map[string]bool)
	for _, item := range items {
		if both[item.name] && seen[item.name] {
			continue
		}
		seen[item.name] = true
		limits = append(limits, item.text)
	}
	setValue(h, fieldLimit, []string{strings.Join(limits, ", ")})
}

// mergePolicies lists the policies of both levels, those of the level that leads first, and none of them twice.
func mergePolicies(outer, ours []string, outerLeads bool) string {
	first, second := ours, outer
	if outerLeads {
		first, second = outer, ours
	}
	all := slices.Clone(first)
	for _, text := range second {
		if !slices.Contains(first, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func textsOf[T any](list []listed[T]) []string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].text
	}
	return texts
}
