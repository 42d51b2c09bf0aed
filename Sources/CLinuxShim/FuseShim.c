#define _GNU_SOURCE
#include "FuseShim.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int32_t pfs_lock_on_fault(void *start, size_t length) {
    return mlock2(start, length, MLOCK_ONFAULT) == 0 ? 0 : -errno;
}

void pfs_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

int32_t pfs_thread_id(void) { return gettid(); }

const char *pfs_errno_name(int32_t error) {
#ifdef __GLIBC__
    return strerrorname_np(error);
#else
    (void)error;
    return NULL;
#endif
}
