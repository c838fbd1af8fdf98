package fusedev

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// LifeThread is the number of a thread of this process that does nothing, so that it ends as soon
// as the process is killed. Others may wait in the kernel for much longer, and the process and its
// first thread end with the last of them (seen on Linux 6.18).
var LifeThread = sync.OnceValue(func() (tid int) {
	thread := make(chan int)
	go live(thread)
	return <-thread
})

// live takes a thread for itself, sends its number, and never ends. It must not be
// the first one, whose end shows only when all have ended.
func live(thread chan<- int) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		other := make(chan int)
		go live(other) // cannot be on this one
		thread <- <-other
		runtime.UnlockOSThread()
		return
	}
	thread <- unix.Gettid()
	select {}
}

// OpenThread returns a descriptor that becomes readable when a thread, perhaps of another process,
// ends. It is -1 where the kernel has none, which takes Linux 6.9, or the thread has ended.
func OpenThread(tid int) (pidfd int) {
	fd, err := unix.PidfdOpen(tid, unix.PIDFD_THREAD)
	if err != nil {
		return -1
	}
	return fd
}
