/* The clock on the wall jumps by a day after half a second, forward and then back: to be loaded before a program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    static time_t begun;
    struct timespec since;
    int failed;
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    failed = real(which, now);
    if (failed || which != CLOCK_REALTIME)
        return failed;
    real(CLOCK_MONOTONIC, &since);
    if (!begun)
        begun = since.tv_sec;
    now->tv_sec += (since.tv_sec - begun) % 2 ? 86400 : -86400;
    return 0;
}
