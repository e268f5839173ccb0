package redistest

import "syscall"

// dieWithParent has the kernel kill the server, frozen or not, when the test
// binary ends without its cleanups: a panic, or the timeout of go test.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
