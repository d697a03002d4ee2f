package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// isolate runs a command, in place of this process, in a network namespace of its own in which loopback is up: nobody
// else's connections share its ports, its limits and its counters. Needs root.
func isolate(command []string) error {
	// a namespace belongs to a thread, and the thread that calls exec becomes the process
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return os.NewSyscallError("exec", syscall.Exec(path, command, os.Environ()))
}

func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	// struct ifreq: a name of 16 bytes, then the flags
	var request [40]byte
	copy(request[:], "lo")
	flags := (*uint16)(unsafe.Pointer(&request[16]))
	*flags = syscall.IFF_UP | syscall.IFF_RUNNING
	_, _, number := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if number != 0 {
		return os.NewSyscallError("ioctl", number)
	}
	return nil
}
