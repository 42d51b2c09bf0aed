/*
 * Preloaded into the TPM helper: at _exit(2), counts the places of its memory that have the secrets of the file $SCANNED, and
 * writes the number to that file. The secrets are inverted in the file and 32 bytes each, so that the search finds no copy of its own.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned char wanted[256];
static unsigned char page[1 << 16];
static int file = -1;

static int count_in(int memory, unsigned long from, unsigned long to, size_t length) {
    int found = 0;
    /* Pieces overlap by the length of a secret less one byte. */
    for (unsigned long at = from; at < to && to - from < 1UL << 40; at += sizeof page - 31) {
        size_t size = to - at < sizeof page ? to - at : sizeof page;
        ssize_t got = pread(memory, page, size, (off_t)at);
        for (ssize_t place = 0; place + 32 <= got; place++)
            for (size_t secret = 0; secret < length; secret += 32) {
                int same = 0;
                while (same < 32 && (page[place + same] ^ 0xff) == wanted[secret + same]) same++;
                found += same == 32;
            }
    }
    return found;
}

static __attribute__((constructor)) void begin(void) {
    const char *path = getenv("SCANNED");
    if (path != NULL) file = open(path, O_RDWR | O_CLOEXEC);
}

/* The heap is wiped, and the environment is in it. So nothing here may use them. */
void _exit(int code) {
    static char maps[1 << 18];
    ssize_t length = file < 0 ? -1 : read(file, wanted, sizeof wanted), used = 0, got = 1;
    int found = -1, memory = open("/proc/self/mem", O_RDONLY), list = open("/proc/self/maps", O_RDONLY);
    while (list >= 0 && got > 0) {
        got = read(list, maps + used, sizeof maps - 1 - used);
        used += got > 0 ? got : 0;
    }
    if (length > 0 && memory >= 0 && used > 0) {
        found = 0;
        for (char *line = maps; line != NULL && *line; line = strchr(line, '\n'), line += line != NULL) {
            unsigned long from, to, own = (unsigned long)page, end = own + sizeof page;
            char mode[8];
            if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[0] != 'r') continue;
            /* What this search itself reads into is left out. */
            if (from < end && own < to) {
                found += count_in(memory, from, own, (size_t)length) + count_in(memory, end, to, (size_t)length);
            } else {
                found += count_in(memory, from, to, (size_t)length);
            }
        }
    }
    if (file >= 0) {
        char text[16];
        int size = snprintf(text, sizeof text, " %d", found);
        if (write(file, text, (size_t)size) != size) found = -1;
    }
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}
