package fusedev

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// guard wakes a sleeping goroutine when a request comes in while no goroutine reads.
// Setting it takes a microsecond and wakes none: most requests that may have to wait are
// answered before the next one comes. It is an epoll instance that has the device for that
// time only. If the guard were only told to report nothing (EPOLL_CTL_MOD), the kernel
// would still wake the sleeper, which then sleeps again: Linux always adds EPOLLERR.
type guard struct{ epoll, device int }

// newGuard makes the guard of a device that is served until there is something to
// read from stop.
func newGuard(device, stop int) (*guard, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, stop, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll_ctl: %w", err), unix.Close(epoll))
	}
	return &guard{epoll, device}, nil
}

// set makes wait return, once, as soon as a request, or the end, is or comes in.
func (g *guard) set() error {
	err := g.control(unix.EPOLL_CTL_ADD)
	if err == syscall.EEXIST { // it has made wait return since
		err = g.control(unix.EPOLL_CTL_MOD)
	}
	if err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// unset takes that back.
func (g *guard) unset() { _ = g.control(unix.EPOLL_CTL_DEL) }

func (g *guard) control(op int) error {
	return unix.EpollCtl(g.epoll, op, g.device, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
}

// wait sleeps until there is something to read, once for every set, and not at all
// when the device is not to be served any more.
func (g *guard) wait() error {
	var event [1]unix.EpollEvent
	for {
		n, err := unix.EpollWait(g.epoll, event[:], -1)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
}

func (g *guard) close() error { return unix.Close(g.epoll) }
