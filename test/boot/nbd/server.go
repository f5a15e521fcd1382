package nbd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// Numbers of the NBD protocol (doc/proto.md of NetworkBlockDevice/nbd).
const (
	magicInit    = 0x4e42444d41474943 // NBDMAGIC
	magicOption  = 0x49484156454f5054 // IHAVEOPT
	magicAnswer  = 0x0003e889045565a9
	magicRequest = 0x25609513
	magicReply   = 0x67446698

	flagFixedNewstyle, flagNoZeroes = 1, 2

	optExportName, optAbort, optList, optInfo, optGo = 1, 2, 3, 6, 7

	repAck, repServer, repInfo            = 1, 2, 3
	repUnsupported, repInvalid            = 1<<31 | 1, 1<<31 | 3
	infoExport, infoBlockSize             = 0, 3
	cmdRead, cmdWrite, cmdDisc, cmdFlush  = 0, 1, 2, 3
	cmdTrim, cmdCache, cmdZeroes, cmdFUA  = 4, 5, 6, 1
	transFlags                            = 1 | 4 | 8 | 32 | 64 | 256 // flags, flush, fua, trim, zeroes, several connections
	transReadOnly                         = 2
	maxRequest                            = 32 << 20
	maxOption                             = 64 << 10
	errPerm, errIO, errInvalid, errNoSupp = 1, 5, 22, 95
	errShutdown                           = 108
)

// Server serves one Disk on one Unix socket.
type Server struct {
	listen net.Listener
	done   sync.WaitGroup

	mu     sync.Mutex // guards all below
	disk   *Disk
	conns  map[net.Conn]bool
	closed bool
}

// Serve listens at a socket and serves d to all who come, until Close.
func Serve(d *Disk, socket string) (*Server, error) {
	os.Remove(socket) // of a server that was killed
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serve a disk: %w", err)
	}
	s := &Server{disk: d, listen: l, conns: map[net.Conn]bool{}}
	s.done.Go(s.accept)
	return s, nil
}

// Socket is where it listens.
func (s *Server) Socket() string { return s.listen.Addr().String() }

// Disk is the disk that is served.
func (s *Server) Disk() *Disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk
}

// Swap serves another disk of the same size from now on, to those who are
// connected too. It is for disks that a guest has not looked at yet.
func (s *Server) Swap(d *Disk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.size != s.disk.size {
		return fmt.Errorf("a disk of %d bytes can't take the place of one of %d", d.size, s.disk.size)
	}
	s.disk = d
	return nil
}

// Close disconnects everybody. It flushes nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.listen.Close()
	s.done.Wait()
}

// Cut ends the power: no request gets through after it, everybody is
// disconnected, and the disk as the cut leaves it is given back.
func (s *Server) Cut(seed uint64) (*Disk, Loss) {
	d := s.Disk()
	d.PowerOff()
	s.Close()
	return d.Cut(seed)
}

func (s *Server) accept() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			c.Close()
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.done.Go(func() {
			p := &peer{server: s, r: bufio.NewReaderSize(c, 64<<10), w: bufio.NewWriterSize(c, 64<<10)}
			if p.negotiate() == nil {
				p.transmit()
			}
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// peer is one connection.
type peer struct {
	server *Server
	r      *bufio.Reader
	w      *bufio.Writer
	buf    []byte
}

var errEnd = errors.New("the client ended the negotiation")

func (p *peer) put(fields ...any) {
	for _, f := range fields {
		binary.Write(p.w, binary.BigEndian, f) // an error comes back from Flush
	}
}

func (p *peer) flags() uint16 {
	d := p.server.Disk()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readOnly {
		return transFlags | transReadOnly
	}
	return transFlags
}

// negotiate returns nil when the client has chosen the export.
func (p *peer) negotiate() error {
	p.put(uint64(magicInit), uint64(magicOption), uint16(flagFixedNewstyle|flagNoZeroes))
	if err := p.w.Flush(); err != nil {
		return err
	}
	var client uint32
	if err := binary.Read(p.r, binary.BigEndian, &client); err != nil {
		return err
	}
	for {
		var head struct {
			Magic       uint64
			Option, Len uint32
		}
		if err := binary.Read(p.r, binary.BigEndian, &head); err != nil {
			return err
		}
		if head.Magic != magicOption || head.Len > maxOption {
			return fmt.Errorf("bad option of %d bytes with magic %#x", head.Len, head.Magic)
		}
		body := make([]byte, head.Len)
		if _, err := io.ReadFull(p.r, body); err != nil {
			return err
		}
		ready, err := p.option(head.Option, body, client&flagNoZeroes != 0)
		if ferr := p.w.Flush(); err == nil {
			err = ferr
		}
		if ready || err != nil {
			return err
		}
	}
}

// option answers one option and says whether requests follow now.
func (p *peer) option(opt uint32, body []byte, noZeroes bool) (ready bool, err error) {
	answer := func(kind uint32, data ...any) {
		n := 0
		for _, d := range data {
			n += binary.Size(d)
		}
		p.put(uint64(magicAnswer), opt, kind, uint32(n))
		p.put(data...)
	}
	switch opt {
	case optExportName:
		p.put(uint64(p.server.Disk().size), p.flags())
		if !noZeroes {
			p.put([124]byte{})
		}
		return true, nil
	case optInfo, optGo:
		if len(body) < 6 { // name length, no name, number of infos
			answer(repInvalid)
			return false, nil
		}
		answer(repInfo, uint16(infoExport), uint64(p.server.Disk().size), p.flags())
		answer(repInfo, uint16(infoBlockSize), uint32(Sector), uint32(pageSize), uint32(maxRequest))
		answer(repAck)
		return opt == optGo, nil
	case optList:
		answer(repServer, uint32(0)) // one export, whose name is empty
		answer(repAck)
	case optAbort:
		answer(repAck)
		return false, errEnd
	default:
		answer(repUnsupported)
	}
	return false, nil
}

type request struct {
	Magic      uint32
	Flags, Cmd uint16
	Cookie     uint64
	Off        uint64
	Len        uint32
}

// transmit serves requests in the order they come until the client goes.
func (p *peer) transmit() error {
	for {
		var q request
		if err := binary.Read(p.r, binary.BigEndian, &q); err != nil {
			return err
		}
		if q.Magic != magicRequest {
			return fmt.Errorf("request with magic %#x", q.Magic)
		}
		if q.Cmd == cmdDisc {
			return nil
		}
		if (q.Cmd == cmdRead || q.Cmd == cmdWrite) && q.Len > maxRequest {
			return fmt.Errorf("request of %d bytes", q.Len)
		}
		data, code, err := p.serve(q)
		if err != nil {
			return err
		}
		p.put(uint32(magicReply), code, q.Cookie)
		p.w.Write(data)
		if err := p.w.Flush(); err != nil {
			return err
		}
	}
}

// serve carries one request out; err ends the connection, code goes to the client.
func (p *peer) serve(q request) (data []byte, code uint32, err error) {
	if len(p.buf) < int(q.Len) && (q.Cmd == cmdRead || q.Cmd == cmdWrite) {
		p.buf = make([]byte, q.Len)
	}
	disk := p.server.Disk()
	off, fua := int64(q.Off), q.Flags&cmdFUA != 0
	var did error
	switch q.Cmd {
	case cmdRead:
		data = p.buf[:q.Len]
		if _, did = disk.ReadAt(data, off); did != nil {
			data = nil
		}
	case cmdWrite:
		if _, err := io.ReadFull(p.r, p.buf[:q.Len]); err != nil {
			return nil, 0, err
		}
		did = disk.Write(p.buf[:q.Len], off, fua)
	case cmdFlush:
		did = disk.Flush()
	case cmdTrim, cmdZeroes:
		did = disk.Zero(off, int64(q.Len), fua)
	case cmdCache:
	default:
		return nil, errNoSupp, nil
	}
	return data, errno(did), nil
}

func errno(err error) uint32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrReadOnly):
		return errPerm
	case errors.Is(err, ErrRange), errors.Is(err, io.EOF):
		return errInvalid
	case errors.Is(err, ErrOff):
		return errShutdown
	}
	return errIO
}
