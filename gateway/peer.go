package gateway

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mneme/errkind"
)

// ErrPeer says that another user's process listens at the address of the server: no credential is
// sent to it.
var ErrPeer = errkind.New(errkind.Policy, "another user listens where the server of the stores should be")

// peers are the users whose process may be a server on this machine.
type peers struct {
	trusted []uint32
	any     bool
	tables  []string // the sockets that listen, as Linux shows them
}

func newPeers(opts *Options) *peers {
	p := &peers{trusted: []uint32{0, uint32(os.Geteuid())}, any: opts.AnyServer, tables: []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}}
	if opts.ServerUID != 0 {
		p.trusted = append(p.trusted, opts.ServerUID)
	}
	return p
}

// check returns ErrPeer where a connection is to a process of a user that is not trusted.
func (p *peers) check(conn net.Conn) error {
	if p.any {
		return nil
	}
	var uids []uint32
	var err error
	switch c := conn.(type) {
	case *net.UnixConn:
		uids, err = ownerOf(c)
	case *net.TCPConn:
		uids, err = p.listeners(c.RemoteAddr().(*net.TCPAddr).AddrPort())
	}
	if err != nil {
		return fmt.Errorf("%w: who it is cannot be told: %w", ErrPeer, err)
	}
	for _, uid := range uids {
		if !slices.Contains(p.trusted, uid) {
			return fmt.Errorf("%w: user %d, at %v", ErrPeer, uid, conn.RemoteAddr())
		}
	}
	return nil
}

// ownerOf returns who has made the socket that a connection was made to (SO_PEERCRED in unix(7)).
func ownerOf(c *net.UnixConn) ([]uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return nil, err
	}
	return []uint32{cred.Uid}, nil
}

// errNoListener says that no process of this machine listens at an address.
var errNoListener = errors.New("no process of this machine listens there")

// listeners returns the users who listen at an address of this machine. The owner of the other end
// of the connection would not do: Linux shows root as that until it is accepted.
func (p *peers) listeners(at netip.AddrPort) (uids []uint32, err error) {
	for _, table := range p.tables {
		f, err := os.Open(table)
		if errors.Is(err, fs.ErrNotExist) { // such as without IPv6
			continue
		}
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if local, uid, ok := listener(lines.Text()); ok && local.Port() == at.Port() && (local.Addr() == at.Addr().Unmap() || local.Addr().IsUnspecified()) {
				uids = append(uids, uid)
			}
		}
		f.Close()
	}
	if uids == nil {
		return nil, errNoListener
	}
	return uids, nil
}

// listener reads a line of /proc/net/tcp; ok is false where it is not of a socket that listens.
func listener(line string) (local netip.AddrPort, uid uint32, ok bool) {
	const listens = "0A"
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[3] != listens {
		return local, 0, false
	}
	address, port, _ := strings.Cut(fields[1], ":")
	bytes, err := hex.DecodeString(address)
	n, portErr := strconv.ParseUint(port, 16, 16)
	of, uidErr := strconv.ParseUint(fields[7], 10, 32)
	if err != nil || portErr != nil || uidErr != nil || len(bytes)%4 != 0 {
		return local, 0, false
	}
	for i := 0; i < len(bytes); i += 4 { // words of the machine's byte order, as numbers
		binary.NativeEndian.PutUint32(bytes[i:], binary.BigEndian.Uint32(bytes[i:]))
	}
	ip, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), uint32(of), ok
}
