#define _GNU_SOURCE
#include "ControlShim.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int pfs_unix_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

static int fill(struct sockaddr_un *address, const char *path) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address->sun_path, path);
    return 0;
}

int pfs_unix_bind(int fd, const char *path) {
    struct sockaddr_un address;
    if (fill(&address, path) < 0) return -1;
    return bind(fd, (const struct sockaddr *)&address, sizeof address);
}

int pfs_unix_connect(int fd, const char *path) {
    struct sockaddr_un address;
    struct timeval limit = {30, 0}, none = {0, 0};
    if (fill(&address, path) < 0) return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0) return -1;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) return -1;
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
}

int pfs_accept(int fd) { return accept4(fd, 0, 0, SOCK_CLOEXEC); }

int pfs_peer(int fd, unsigned int *user, int *process) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) return -1;
    *user = credentials.uid;
    *process = credentials.pid;
    return 0;
}

int pfs_send_datagram(const char *name, const void *bytes, unsigned long length) {
    struct sockaddr_un address;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    int fd, result;
    if (fill(&address, name) < 0) return -errno;
    if (name[0] == '@') address.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    result = sendto(fd, bytes, length, MSG_NOSIGNAL, (const struct sockaddr *)&address, size) < 0 ? -errno : 0;
    close(fd);
    return result;
}
