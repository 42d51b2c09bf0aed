/* Calls that the threads of a FUSE daemon need and Glibc's module map lacks; no logic. */
#ifndef PROTECTFS_FUSESHIM_H
#define PROTECTFS_FUSESHIM_H
#include <stddef.h>
#include <stdint.h>

/* mlock2(2) with MLOCK_ONFAULT: pages become resident when they are touched. 0 or -errno. */
int32_t pfs_lock_on_fault(void *start, size_t length);
/* pthread_setname_np(3) of the calling thread. */
void pfs_name_thread(const char *name);
/* gettid(2). A FUSE request has this number as its process ID. */
int32_t pfs_thread_id(void);
/* strerrorname_np(3). The name of an errno, such as EACCES; NULL for an unknown number. */
const char *pfs_errno_name(int32_t error);

#endif
