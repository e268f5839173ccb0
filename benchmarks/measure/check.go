package measure

import (
	"errors"
	"fmt"
)

// Want is what a turn must have done for its time to mean anything.
type Want struct {
	Keys     int  // so many distinct ones; 0 where that does not matter
	Distinct bool // a key of its own for each call
	Allowed  int  // so many; AllOf for every call
	Slack    int  // how many more may be; of AllOf, how many may be denied
}

// AllOf says that every call must have been allowed.
const AllOf = -1

// Check returns an error unless a sample is what was wanted. A call that failed never is.
func (w Want) Check(s Sample) error {
	switch {
	case s.Failed > 0:
		return fmt.Errorf("%d of %d calls failed", s.Failed, s.Calls())
	case s.Calls() == 0:
		return errors.New("no call was made")
	case w.Keys > 0 && s.Keys != w.Keys:
		return fmt.Errorf("%d distinct keys, want %d", s.Keys, w.Keys)
	case w.Distinct && s.Keys != s.Calls():
		return fmt.Errorf("%d distinct keys in %d calls, want as many", s.Keys, s.Calls())
	case w.Allowed == AllOf && s.Denied > w.Slack:
		return fmt.Errorf("%d of %d calls were denied, want none", s.Denied, s.Calls())
	case w.Allowed != AllOf && (s.Allowed < w.Allowed || s.Allowed > w.Allowed+w.Slack):
		return fmt.Errorf("%d of %d calls were allowed, want %d to %d", s.Allowed, s.Calls(), w.Allowed, w.Allowed+w.Slack)
	}
	return nil
}
