/* Unix sockets: sockaddr_un and struct ucred do not import. No logic. */
#ifndef PROTECTFS_CONTROLSHIM_H
#define PROTECTFS_CONTROLSHIM_H

/* socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC). */
int pfs_unix_socket(void);
/* bind(2); ENAMETOOLONG if the path does not fit. */
int pfs_unix_bind(int fd, const char *path);
/* connect(2); ENAMETOOLONG if the path does not fit, EAGAIN if the listener takes no connection within 30 s. */
int pfs_unix_connect(int fd, const char *path);
/* accept4(2) with SOCK_CLOEXEC. */
int pfs_accept(int fd);
/* SO_PEERCRED's user and process. */
int pfs_peer(int fd, unsigned int *user, int *process);
/*
 * Sends one datagram to a socket's path and never waits. A path that begins with @ is in the abstract namespace (unix(7)). Returns 0
 * or -errno; -EAGAIN if the receiver's queue is full.
 */
int pfs_send_datagram(const char *path, const void *bytes, unsigned long length);

#endif
