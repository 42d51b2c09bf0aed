/* io_uring(7) for commands of FUSE (Linux 6.14), by hand: it is three system calls and two indexes, and liburing would be one more
   library in every process that holds keys. No logic. */
#ifndef PROTECTFS_RINGSHIM_H
#define PROTECTFS_RINGSHIM_H
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* A ring of the thread that has made it. It has no descriptor, and the kernel writes to the thread's memory only inside
   `pfs_ring_enter` with `waits`. */
struct pfs_ring {
    int32_t number;
    uint32_t mask, completion_mask;
    void *memory;
    size_t size;
    uint32_t *head, *tail, *completion_head, *completion_tail;
    void *completions;
};

/* io_uring_setup(2). 0 or -errno. */
int32_t pfs_ring_open(struct pfs_ring *ring);
/* Gives the ring back. Commands that the kernel has are cancelled. */
void pfs_ring_close(struct pfs_ring *ring);
/* Queues FUSE_IO_URING_CMD_REGISTER of two parts (header and payload), or FUSE_IO_URING_CMD_COMMIT_AND_FETCH if `parts` is null. */
void pfs_ring_queue(struct pfs_ring *ring, int32_t device, uint16_t queue, uint64_t commit, const void *parts);
/* io_uring_enter(2): submits what is queued. If `waits` is not 0, waits for a completion with `mask` as the thread's signals.
   The number of submitted commands or -errno. */
int32_t pfs_ring_enter(struct pfs_ring *ring, int32_t waits, const sigset_t *mask);
/* Takes a completion. Whether there was one. */
int32_t pfs_ring_take(struct pfs_ring *ring, int32_t *result);
/* Whether a command is queued that has not been submitted. */
int32_t pfs_ring_has_queued(const struct pfs_ring *ring);
/* sched_setaffinity(2) of the calling thread to one of its processors. 0 or -errno. */
int32_t pfs_stay_on(uint32_t processor);

#endif
