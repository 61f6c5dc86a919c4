// SPDX-License-Identifier: MIT
// Every way to a Unix socket, for test_sockets.py: prints REACHED and the way's
// name for each that gets there, then LEFT for what a program must still be
// able to do. Arguments: the file of a listening stream socket, the file of a
// datagram socket.
//
// Static and at a low address, so that pointers fit the system calls of i386.

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define X32 0x40000000

static struct sockaddr_un stream_at, datagram_at;
static unsigned int words[3];

static void tell(const char *way, int reached) {
  if (reached)
    printf("REACHED %s\n", way);
}

// A system call by the gate of i386, which a 64-bit program has as well.
static int by_i386(unsigned int number, unsigned int a, unsigned int b,
                   unsigned int c) {
  int result;

  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(a), "c"(b), "d"(c)
                   : "memory", "r8", "r9", "r10", "r11");
  return result;
}

static unsigned int low(const void *pointer) {
  return (unsigned int)(unsigned long)pointer;
}

static int connects(int descriptor, const struct sockaddr_un *to) {
  return descriptor >= 0 &&
         connect(descriptor, (const void *)to, sizeof *to) == 0;
}

static int sends(int descriptor) {
  return descriptor >= 0 &&
         sendto(descriptor, "x", 1, MSG_DONTWAIT, (const void *)&datagram_at,
                sizeof datagram_at) == 1;
}

static int socketcall(unsigned int what, unsigned int a, unsigned int b,
                      unsigned int c) {
  words[0] = a;
  words[1] = b;
  words[2] = c;
  return by_i386(102, what, low(words), 0);
}

int main(int count, char **arguments) {
  int pair[2], made;
  static char parameters[120];

  if (count != 3)
    return 2;
  stream_at.sun_family = datagram_at.sun_family = AF_UNIX;
  snprintf(stream_at.sun_path, sizeof stream_at.sun_path, "%s", arguments[1]);
  snprintf(datagram_at.sun_path, sizeof datagram_at.sun_path, "%s",
           arguments[2]);

  tell("stream", connects(socket(AF_UNIX, SOCK_STREAM, 0), &stream_at));
  tell("stream-with-flags",
       connects(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &stream_at));
  tell("datagram", sends(socket(AF_UNIX, SOCK_DGRAM, 0)));
  // Beyond the int that the kernel looks at.
  tell("upper-half",
       connects((int)syscall(SYS_socket, AF_UNIX | 1L << 32, SOCK_STREAM, 0),
                &stream_at));
  tell("x32", connects((int)syscall(X32 | SYS_socket, AF_UNIX, SOCK_STREAM, 0),
                       &stream_at));
  tell("i386", connects(by_i386(359, AF_UNIX, SOCK_STREAM, 0), &stream_at));
  tell("socketcall",
       connects(socketcall(1, AF_UNIX, SOCK_STREAM, 0), &stream_at));

  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0) {
    tell("pair-of-datagrams", sends(pair[0]));
    tell("pair-connected-anew", connects(pair[0], &datagram_at));
  }
  if (socketpair(AF_UNIX, SOCK_RAW, 0, pair) == 0)
    tell("pair-raw", sends(pair[0]));
  if (syscall(X32 | SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, pair) == 0)
    tell("pair-x32", sends(pair[0]));
  if (by_i386(360, AF_UNIX, SOCK_DGRAM, 0) == -EFAULT)
    tell("pair-i386", 1);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0)
    tell("pair-of-packets", connects(pair[0], &stream_at));
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
    tell("pair-of-streams", connects(pair[0], &stream_at) || sends(pair[0]));
    close(pair[1]);
    tell("pair-without-its-peer", connects(pair[0], &stream_at));
  }
  // From there on one entry of the ring makes the socket and another connects
  // it.
  made = (int)syscall(SYS_io_uring_setup, 2, parameters);
  tell("io_uring", made >= 0);
  memset(parameters, 0, sizeof parameters);
  tell("io_uring-i386", by_i386(425, 2, low(parameters), 0) >= 0);
  tell("vsock", socket(40, SOCK_STREAM, 0) >= 0);

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
      write(pair[0], "x", 1) == 1)
    puts("LEFT pairs");
  if (socket(AF_INET, SOCK_STREAM, 0) >= 0 &&
      socket(AF_INET6, SOCK_DGRAM, 0) >= 0)
    puts("LEFT internet");
  if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0)
    puts("LEFT netlink");
  return 0;
}
