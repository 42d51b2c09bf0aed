/* What a FUSE daemon's threads need and Glibc's module map lacks; no logic. */
#ifndef PROTECTFS_FUSESHIM_H
#define PROTECTFS_FUSESHIM_H
#include <stddef.h>
#include <stdint.h>

/* mlock2(2) with MLOCK_ONFAULT: pages become resident when they are touched. 0 or -errno. */
int32_t pfs_lock_on_fault(void *start, size_t length);
/* pthread_setname_np(3) of the calling thread. */
void pfs_name_thread(const char *name);
/* gettid(2): what the kernel calls the process of a request. */
int32_t pfs_thread_id(void);
/* strerrorname_np(3): the name of an errno, such as EACCES; NULL for a number that has none. */
const char *pfs_errno_name(int32_t error);

#endif
