//go:build !linux

package redistest

import "syscall"

// dieWithParent knows no way here: a server outlives a test binary that ends
// without its cleanups.
func dieWithParent() *syscall.SysProcAttr { return nil }
