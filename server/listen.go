package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"mneme/errkind"
)

// UnixPrefix is that of an address which is the path of a socket.
const UnixPrefix = "unix:"

// Listen listens at HOST:PORT, or at unix:/path, a socket that only this user and its group can
// reach. It replaces a socket on which no process listens any longer.
func Listen(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, UnixPrefix)
	if !isUnix {
		l, err := net.Listen("tcp", address)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("%w: end the process that listens there, or give another port: %w", errAddress, err)
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return nil, fmt.Errorf("this machine has no such address; give one that it has, or 0.0.0.0 for all: %w", err)
		}
		return l, err
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket has %d bytes, and may have %d; give a shorter one", len(path), maxSocketPath)
	}
	if err := removeDeadSocket(path); err != nil {
		return nil, err
	}
	mask := syscall.Umask(0o117)
	l, err := net.Listen("unix", path)
	syscall.Umask(mask)
	return l, err
}

// maxSocketPath is how many bytes the path of a socket has at most on Linux (sun_path in unix(7), without
// the NUL at its end).
const maxSocketPath = 107

var (
	errAddress = errkind.New(errkind.InUse, "the address is in use")
	errSocket  = errkind.New(errkind.InUse, "the path of the socket is in use")
)

func removeDeadSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: %s is no socket", errSocket, path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("%w: a process listens at %s", errSocket, path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", errSocket, err)
	}
	return os.Remove(path)
}

// certificate is a certificate and its key in two files, which are read again when they change.
type certificate struct {
	certFile, keyFile string

	mu     sync.Mutex // held while the files are read
	now    *tls.Certificate
	stamps [2]stamp
	looked time.Time
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	time time.Time
}

// lookAgain is how often the files are looked at.
const lookAgain = time.Second

// TLS returns the configuration of a listener with a certificate and its key in PEM files. They are
// read again within a second after they have changed; ones that cannot be read leave those before
// in use.
func TLS(certFile, keyFile string, failed func(error)) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.config(failed), nil
}

func (c *certificate) config(failed func(error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if err := c.read(); err != nil {
			failed(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now, nil
	}}
}

// read reads the files, if they have changed since they were looked at, which is some time ago.
func (c *certificate) read() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookAgain {
		return nil
	}
	c.looked = time.Now()
	var stamps [2]stamp
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		stamps[i] = stamp{info.Size(), info.ModTime()}
	}
	if c.now != nil && stamps == c.stamps {
		return nil
	}
	read, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.now, c.stamps = &read, stamps
	return nil
}
