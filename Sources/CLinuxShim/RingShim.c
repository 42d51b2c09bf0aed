#define _GNU_SOURCE
#include "RingShim.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The calls and layouts of linux/io_uring.h and linux/fuse.h. Debian 12's headers are older than what is used of them. */
enum { SETUP = 425, ENTER = 426, REGISTER = 427 };
enum { SUBMIT_ALL = 1 << 7, ENTRY_128 = 1 << 10, SINGLE_ISSUER = 1 << 12, DEFER_WORK = 1 << 13, NO_MAPPING = 1 << 14,
       NO_DESCRIPTOR = 1 << 15 };
enum { GET_EVENTS = 1 << 0, REGISTERED_RING = 1 << 4, UNREGISTER_RINGS = 21 };
enum { URING_COMMAND = 46, FUSE_REGISTER = 1, FUSE_COMMIT_AND_FETCH = 2 };

struct offsets {
    uint32_t head, tail, mask, entries, last[4]; /* flags, dropped, array; overflow, completions, flags */
    uint64_t address;
};
struct parameters {
    uint32_t submissions, completions, flags, thread_processor, thread_idle, features, worker, reserved[3];
    struct offsets submission, completion;
};
struct entry {
    uint8_t code, flags;
    uint16_t priority;
    int32_t descriptor;
    uint32_t operation, zero;
    uint64_t address;
    uint32_t length, command_flags;
    uint64_t data;
    uint16_t buffer, personality;
    uint32_t file;
    uint64_t command_data[10]; /* struct fuse_uring_cmd_req */
};
struct completion {
    uint64_t data;
    int32_t result;
    uint32_t flags;
};
_Static_assert(sizeof(struct parameters) == 120 && sizeof(struct entry) == 128 && sizeof(struct completion) == 16, "layouts");

int32_t pfs_ring_open(struct pfs_ring *ring) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memset(ring, 0, sizeof *ring);
    ring->size = 2 * page;
    ring->memory = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring->memory == MAP_FAILED) return -errno;
    char *rings = (char *)ring->memory + page;
    struct parameters wanted = {
        .flags = SUBMIT_ALL | ENTRY_128 | SINGLE_ISSUER | DEFER_WORK | NO_MAPPING | NO_DESCRIPTOR,
        .submission.address = (uintptr_t)ring->memory,
        .completion.address = (uintptr_t)rings,
    };
    ring->number = (int32_t)syscall(SETUP, 4L, &wanted);
    if (ring->number < 0) {
        const int32_t error = -errno;
        munmap(ring->memory, ring->size);
        return error;
    }
    ring->head = (uint32_t *)(rings + wanted.submission.head);
    ring->tail = (uint32_t *)(rings + wanted.submission.tail);
    ring->mask = *(uint32_t *)(rings + wanted.submission.mask);
    ring->completion_head = (uint32_t *)(rings + wanted.completion.head);
    ring->completion_tail = (uint32_t *)(rings + wanted.completion.tail);
    ring->completion_mask = *(uint32_t *)(rings + wanted.completion.mask);
    ring->completions = rings + wanted.completion.last[1];
    uint32_t *order = (uint32_t *)(rings + wanted.submission.last[2]);
    for (uint32_t at = 0; at <= ring->mask; at++) order[at] = at;
    return 0;
}

void pfs_ring_close(struct pfs_ring *ring) {
    const struct {
        uint32_t number, reserved;
        uint64_t data;
    } update = {.number = (uint32_t)ring->number};
    syscall(REGISTER, (long)ring->number, (long)(UNREGISTER_RINGS | 1u << 31), &update, 1L);
    munmap(ring->memory, ring->size);
}

void pfs_ring_queue(struct pfs_ring *ring, int32_t device, uint16_t queue, uint64_t commit, const void *parts) {
    const uint32_t tail = *ring->tail;
    struct entry *entry = (struct entry *)ring->memory + (tail & ring->mask);
    *entry = (struct entry){
        .code = URING_COMMAND,
        .descriptor = device,
        .operation = parts ? FUSE_REGISTER : FUSE_COMMIT_AND_FETCH,
        .address = (uintptr_t)parts,
        .length = parts ? 2 : 0,
        .command_data = {0, commit, queue},
    };
    __atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
}

int32_t pfs_ring_has_queued(const struct pfs_ring *ring) {
    return *ring->tail != __atomic_load_n(ring->head, __ATOMIC_ACQUIRE);
}

int32_t pfs_ring_enter(struct pfs_ring *ring, int32_t waits, const sigset_t *mask) {
    const uint32_t queued = *ring->tail - __atomic_load_n(ring->head, __ATOMIC_ACQUIRE);
    /* Each argument of syscall(2) must have the width of a register. */
    const long flags = REGISTERED_RING | (waits ? GET_EVENTS : 0), least = waits ? 1 : 0, size = waits ? 8 : 0;
    const long result = syscall(ENTER, (long)ring->number, (long)queued, least, flags, waits ? mask : NULL, size);
    return result < 0 ? -errno : (int32_t)result;
}

int32_t pfs_ring_take(struct pfs_ring *ring, int32_t *result) {
    const uint32_t head = *ring->completion_head;
    if (head == __atomic_load_n(ring->completion_tail, __ATOMIC_ACQUIRE)) return 0;
    *result = ((struct completion *)ring->completions)[head & ring->completion_mask].result;
    __atomic_store_n(ring->completion_head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

int32_t pfs_stay_on(uint32_t processor) {
    cpu_set_t set;
    if (processor >= CPU_SETSIZE) return -EINVAL;
    /* Somebody may have kept this process from it (taskset(1)). */
    if (sched_getaffinity(0, sizeof set, &set) != 0) return -errno;
    if (!CPU_ISSET(processor, &set)) return -EINVAL;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : -errno;
}
