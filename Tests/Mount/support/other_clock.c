/* Preloaded: the time of day begins at $CLOCK_SECONDS (seconds since 1970, may be negative). Other clocks stay as they are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static long first, start, is_known;
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    if (!is_known) {
        const char *text = getenv("CLOCK_SECONDS");
        first = now->tv_sec;
        start = text ? atol(text) : first;
        is_known = 1;
    }
    now->tv_sec = start + (now->tv_sec - first);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
