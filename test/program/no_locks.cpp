// For LD_PRELOAD: flock, as on a file system that has no locks.
#include <cerrno>
#include <sys/file.h>

extern "C" int flock(int /*file*/, int /*operation*/) noexcept {
    errno = ENOSYS;
    return -1;
}
