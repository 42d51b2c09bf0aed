/*
 * Keeps a password in locked memory between guard pages.
 */
#define _GNU_SOURCE
#include "Token.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The bytes between the two guard pages. */
static size_t inner_size(void) {
    size_t page = page_size();
    return (sizeof(struct pfs_token) + page - 1) / page * page;
}

struct pfs_token *pfs_token_new(void) {
    size_t page = page_size(), inner = inner_size(), whole = inner + 2 * page;
    char *place = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return NULL;
    char *start = place + page;
    if (mprotect(start, inner, PROT_READ | PROT_WRITE) == 0 && madvise(start, inner, MADV_DONTDUMP) == 0 &&
        mlock(start, inner) == 0)
        return (struct pfs_token *)(void *)start;
    int reason = errno;
    munmap(place, whole);
    errno = reason;
    return NULL;
}

int pfs_token_is_usable(const char *bytes, size_t length) {
    return length > 0 && length <= PFS_LONGEST_TOKEN && memchr(bytes, '\n', length) == NULL;
}

int pfs_token_lock(struct pfs_token *token) { return mlock(token, inner_size()) == 0 ? 0 : -errno; }

int pfs_token_leave_out_of_children(struct pfs_token *token) {
    return madvise(token, inner_size(), MADV_WIPEONFORK) == 0 ? 0 : -errno;
}

void pfs_token_free(struct pfs_token *token) {
    if (token == NULL) return;
    explicit_bzero(token, sizeof *token);
    munmap((char *)(void *)token - page_size(), inner_size() + 2 * page_size());
}
