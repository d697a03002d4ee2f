package main

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
)

// sockets is the memory that the kernel charges to TCP sockets of one port, in bytes.
//
// /proc/net/sockstat knows only the whole machine, whatever the network namespace; NETLINK_SOCK_DIAG tells it socket by
// socket, so that the server's own can be told from its clients'.
type sockets struct {
	server, client           int64
	serverCount, clientCount int
}

// Linux, include/uapi/linux/sock_diag.h, inet_diag.h
const (
	netlinkSockDiag   = 4
	sockDiagByFamily  = 20
	inetDiagSkMemInfo = 7
	requestBytes      = 16 + 56
	messageBytes      = 72
	offsetSourcePort  = 4
	offsetDestPort    = 6
	// indices in the list of memory figures
	memReceive = 0
	memForward = 4
	memQueued  = 5
	memBacklog = 7
)

func socketsOf(port int) (sockets, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		return sockets{}, os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	request := make([]byte, requestBytes)
	binary.NativeEndian.PutUint32(request[0:], requestBytes)
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	request[16] = syscall.AF_INET
	request[17] = syscall.IPPROTO_TCP
	request[18] = 1 << (inetDiagSkMemInfo - 1)
	binary.NativeEndian.PutUint32(request[20:], 0xffffffff)
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return sockets{}, os.NewSyscallError("sendto", err)
	}
	var found sockets
	buffer := make([]byte, 256*1024)
	for {
		n, _, err := syscall.Recvfrom(fd, buffer, 0)
		if err != nil {
			return found, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return found, err
		}
		for _, message := range messages {
			switch message.Header.Type {
			case syscall.NLMSG_DONE:
				return found, nil
			case syscall.NLMSG_ERROR:
				return found, errors.New("the kernel does not tell about its sockets")
			default:
				found.count(message.Data, port)
			}
		}
	}
}

func (s *sockets) count(data []byte, port int) {
	if len(data) < messageBytes {
		return
	}
	bytes := memoryOf(data[messageBytes:])
	if int(binary.BigEndian.Uint16(data[offsetSourcePort:])) == port {
		s.server += bytes
		s.serverCount++
	} else if int(binary.BigEndian.Uint16(data[offsetDestPort:])) == port {
		s.client += bytes
		s.clientCount++
	}
}

func memoryOf(attributes []byte) int64 {
	for len(attributes) >= 4 {
		length := int(binary.NativeEndian.Uint16(attributes))
		kind := binary.NativeEndian.Uint16(attributes[2:])
		if length < 4 || length > len(attributes) {
			return 0
		}
		if kind == inetDiagSkMemInfo && length >= 4+4*(memBacklog+1) {
			figure := func(index int) int64 {
				return int64(binary.NativeEndian.Uint32(attributes[4+4*index:]))
			}
			return figure(memReceive) + figure(memForward) + figure(memQueued) + figure(memBacklog)
		}
		attributes = attributes[min(len(attributes), (length+3)&^3):]
	}
	return 0
}
