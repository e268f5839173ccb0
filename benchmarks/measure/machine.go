package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Exclusive waits until no other benchmark that asks for it runs on this machine, and holds off others until it is
// released.
func Exclusive() (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "sash-bench.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("measure: lock: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("measure: lock: %w", err)
	}
	return func() { f.Close() }, nil // which gives up the lock
}

// lock tries again where a signal has interrupted it, as the runtime's own do.
func lock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}

// OnCores runs f on so many cores at the most.
func OnCores(n int, f func()) {
	before := runtime.GOMAXPROCS(n)
	defer runtime.GOMAXPROCS(before)
	f()
}

// cpu is the time that this process has spent on its own behalf and in the kernel.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it fails for arguments that do not exist only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// Heap is how many bytes are in use once the garbage is gone.
func Heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
