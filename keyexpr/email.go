package keyexpr

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxEmailBytes is the longest path of RFC 5321, section 4.5.3.1.3, without its brackets.
const maxEmailBytes = 254

// email is CanonicalEmail for expressions.
func email(args ...any) (any, error) {
	s, failed := textArgument(args[0])
	if failed != nil {
		return nil, failed
	}
	address, ok := CanonicalEmail(s)
	if !ok {
		return nil, &fault{problem: Malformed, complaint: "is not an e-mail address"}
	}
	return address, nil
}

// CanonicalEmail is what email(s) yields in an expression, for a handler that keeps
// something under the same key. It is false for what is no plain address.
//
// Space around the address is trimmed, Unicode is in NFKC (full-width letters
// become plain ones), and both sides of the @ are in lower case, as the mapping of
// domains (UTS #46) folds it: a final sigma is a sigma. RFC 5321 lets a
// server tell Bob@ from bob@, but next to none does: to a limiter they are many
// spellings of one mailbox, and each spelling that counts apart is another helping
// of the quota. A display name, a comment, quotes or invisible characters make it
// no plain address, because a mailer might read one out of it that another spelling
// yields too.
//
// Dots and +tags are left alone, since what they mean is each provider's own
// affair, and so is the choice between a domain in Unicode and its xn-- form.
func CanonicalEmail(s string) (string, bool) {
	if !utf8.ValidString(s) || len(s) > 4*maxEmailBytes {
		return "", false
	}
	if !isPlainLower(s) {
		// Decomposed first, since a mark can have a lower case that is a letter.
		s = norm.NFKC.String(strings.Map(foldLower, norm.NFKD.String(s)))
	}
	s = strings.TrimSpace(s)
	local, domain, ok := strings.Cut(s, "@")
	domain = strings.ReplaceAll(domain, "。", ".") // as RFC 3490, section 3.1, reads it
	if !ok || len(s) > maxEmailBytes || local == "" || strings.ContainsFunc(local, notInAddress) || !isDomain(domain) {
		return "", false
	}
	return local + "@" + domain, true
}

// isPlainLower tells of a text that normalisation and lower case leave as it is.
func isPlainLower(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || 'A' <= s[i] && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// foldLower is one letter for all that are equal but for case, of which some are
// lower case already: U+1C80 is another в.
func foldLower(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || strings.ContainsFunc(label, notInAddress) {
			return false
		}
	}
	return true
}

// notInAddress refuses the specials of RFC 5322, section 3.2.3, but for the dot,
// and every character that does not show: a mailer may drop it (from a domain, UTS
// #46 does), and the rest is another address.
func notInAddress(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError || strings.ContainsRune(`()<>[]:;@\,"`, r) ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
