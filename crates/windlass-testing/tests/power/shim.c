/*
 * Records what a program asks of one directory, for a harness that rebuilds the disk after a power loss.
 *
 * It is preloaded under the real program. POWER_ROOT is the directory, POWER_LOG the file that gets the records. Every
 * call that changes a file or a name below the root is recorded with its data, in the order in which the calls took
 * effect: a lock is held around the call and its record. So is everything that leaves the program, on standard output or
 * on a socket: what has been answered must not be lost. A call that changes a file and is not understood is recorded as
 * such, and the harness refuses the recording.
 *
 * The index of SQLite's log (-shm) is left out: it is mapped memory, is never synced and is made anew after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum record_kind { OPENED = 1, CREATED, MADE_DIRECTORY, WRITTEN, RESIZED, SYNCED, RENAMED, UNLINKED, LINKED, OUTPUT, UNKNOWN };

struct record_head {
    uint32_t kind;
    uint32_t path_bytes;
    uint64_t inode;
    uint64_t offset;
    uint64_t data_bytes;
};

enum { MAX_FILES = 65536, MAX_OUTPUT = 8192 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char root[PATH_MAX];
static size_t root_bytes;
static int log_fd = -1;
static struct { dev_t device; ino_t inode; } files[MAX_FILES];
static size_t file_count;

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (!real_##name) *(void **)&real_##name = dlsym(RTLD_NEXT, #name)

static void begin(void) {
    const char *wanted = getenv("POWER_ROOT"), *log = getenv("POWER_LOG");
    if (!wanted || !log || !realpath(wanted, root)) return;
    root_bytes = strlen(root);
    log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_recording(void) {
    pthread_once(&once, begin);
    return log_fd >= 0;
}

static void add_record(uint32_t kind, const char *path, uint64_t inode, uint64_t offset, const void *data, size_t bytes) {
    struct record_head head = { kind, (uint32_t)strlen(path), inode, offset, bytes };
    struct iovec parts[3] = { { &head, sizeof head }, { (void *)path, head.path_bytes }, { (void *)data, bytes } };
    int saved = errno;
    size_t all = sizeof head + head.path_bytes + bytes;
    if (syscall(SYS_writev, log_fd, parts, 3) != (long)all) abort();
    errno = saved;
}

/* Makes a path below the root relative to it, without following its last part. Returns 0 for other paths. */
static int below_root(int folder, const char *path, char *found) {
    char whole[PATH_MAX], parent[PATH_MAX], real[PATH_MAX];
    if (!is_recording() || !path) return 0;
    int saved = errno;
    if (path[0] == '/' || folder == AT_FDCWD) {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, parent, sizeof parent - 1);
        if (length < 0) { errno = saved; return 0; }
        parent[length] = 0;
        if (snprintf(whole, sizeof whole, "%s/%s", parent, path) >= (int)sizeof whole) { errno = saved; return 0; }
    }
    size_t length = strlen(whole);
    while (length > 1 && whole[length - 1] == '/') whole[--length] = 0;
    char *slash = strrchr(whole, '/');
    const char *name = slash ? slash + 1 : whole;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - whole) : 1, slash ? (slash == whole ? "/" : whole) : ".");
    int inside = realpath(parent, real) != NULL && strlen(real) + strlen(name) + 2 < PATH_MAX;
    errno = saved;
    if (!inside) return 0;
    strcat(real, "/");
    strcat(real, name);
    if (strncmp(real, root, root_bytes) || (real[root_bytes] != '/' && real[root_bytes])) return 0;
    strcpy(found, real + root_bytes + (real[root_bytes] == '/'));
    size_t bytes = strlen(found);
    return !(bytes > 4 && !strcmp(found + bytes - 4, "-shm"));
}

static int is_tracked(const struct stat *status) {
    for (size_t at = 0; at < file_count; at++)
        if (files[at].inode == status->st_ino && files[at].device == status->st_dev) return 1;
    return 0;
}

static void track(const struct stat *status) {
    if (is_tracked(status)) return;
    if (file_count == MAX_FILES) abort();
    files[file_count].device = status->st_dev;
    files[file_count++].inode = status->st_ino;
}

/* Records an opened descriptor; the lock is held. */
static void opened(int fd, const char *path, int existed, int flags) {
    struct stat status;
    int saved = errno;
    if (fd >= 0 && !fstat(fd, &status) && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
        track(&status);
        add_record(existed ? OPENED : CREATED, path, status.st_ino, 0, NULL, 0);
        if (existed && (flags & O_TRUNC)) add_record(RESIZED, "", status.st_ino, 0, NULL, 0);
    }
    errno = saved;
}

static int exists(int folder, const char *path) {
    struct stat status;
    int saved = errno, found = !fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW);
    errno = saved;
    return found;
}

#define OPEN_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; va_start(more, flags); \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        char found[PATH_MAX]; \
        if (!below_root(folder, path, found)) return real_##name(folder, path, flags, mode); \
        pthread_mutex_lock(&lock); \
        int existed = exists(folder, path), fd = real_##name(folder, path, flags, mode); \
        opened(fd, found, existed, flags); \
        pthread_mutex_unlock(&lock); \
        return fd; \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return openat(AT_FDCWD, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int creat(const char *path, mode_t mode) { return openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

enum target { OTHER, FILE_TARGET, OUTPUT_TARGET };

static enum target target_of(int fd, struct stat *status) {
    if (!is_recording()) return OTHER;
    int saved = errno;
    enum target found = OTHER;
    if (!fstat(fd, status)) {
        if (S_ISSOCK(status->st_mode) || fd == STDOUT_FILENO) found = OUTPUT_TARGET;
        else if (S_ISREG(status->st_mode) && is_tracked(status)) found = FILE_TARGET;
    }
    errno = saved;
    return found;
}

static void output(const struct iovec *parts, int count, ssize_t sent) {
    static char text[MAX_OUTPUT];
    size_t left = sent < MAX_OUTPUT ? (size_t)sent : MAX_OUTPUT, filled = 0;
    for (int at = 0; at < count && left; at++) {
        size_t bytes = parts[at].iov_len < left ? parts[at].iov_len : left;
        memcpy(text + filled, parts[at].iov_base, bytes);
        filled += bytes;
        left -= bytes;
    }
    add_record(OUTPUT, "", 0, 0, text, filled);
}

static void written(const struct stat *status, off_t at, const struct iovec *parts, int count, ssize_t bytes) {
    for (int part = 0; part < count && bytes > 0; part++) {
        size_t some = parts[part].iov_len < (size_t)bytes ? parts[part].iov_len : (size_t)bytes;
        add_record(WRITTEN, "", status->st_ino, at, parts[part].iov_base, some);
        at += some;
        bytes -= some;
    }
}

/* Calls and records one write. `at` is -1 for a write at the descriptor's own position. */
#define WRITE(fd, at, parts, count, call) \
    struct stat status; \
    enum target target = target_of(fd, &status); \
    if (target == OTHER) return call; \
    pthread_mutex_lock(&lock); \
    off_t from = (at) >= 0 ? (off_t)(at) : target == FILE_TARGET ? lseek(fd, 0, SEEK_CUR) : 0; \
    if (target == FILE_TARGET && (fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &status)) from = status.st_size; \
    ssize_t done = call; \
    if (done > 0 && target == OUTPUT_TARGET) output(parts, count, done); \
    if (done > 0 && target == FILE_TARGET) written(&status, from, parts, count, done); \
    pthread_mutex_unlock(&lock); \
    return done

ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(ssize_t, write, int, const void *, size_t);
    struct iovec part = { (void *)data, bytes };
    WRITE(fd, -1, &part, 1, real_write(fd, data, bytes));
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    struct iovec part = { (void *)data, bytes };
    WRITE(fd, at, &part, 1, real_pwrite(fd, data, bytes, at));
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    struct iovec part = { (void *)data, bytes };
    WRITE(fd, at, &part, 1, real_pwrite64(fd, data, bytes, at));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    WRITE(fd, -1, parts, count, real_writev(fd, parts, count));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    WRITE(fd, at, parts, count, real_pwritev(fd, parts, count, at));
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    REAL(ssize_t, pwritev64, int, const struct iovec *, int, off64_t);
    WRITE(fd, at, parts, count, real_pwritev64(fd, parts, count, at));
}

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    REAL(ssize_t, send, int, const void *, size_t, int);
    struct iovec part = { (void *)data, bytes };
    WRITE(fd, 0, &part, 1, real_send(fd, data, bytes, flags));
}

ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length) {
    REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    struct iovec part = { (void *)data, bytes };
    WRITE(fd, 0, &part, 1, real_sendto(fd, data, bytes, flags, to, length));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(ssize_t, sendmsg, int, const struct msghdr *, int);
    WRITE(fd, 0, message->msg_iov, (int)message->msg_iovlen, real_sendmsg(fd, message, flags));
}

/* Calls and records a change of a descriptor's file, or of a directory, that has no data. */
#define CHANGE(fd, kind, offset, call) \
    struct stat status; \
    int saved = errno; \
    int known = is_recording() && !fstat(fd, &status) && is_tracked(&status); \
    errno = saved; \
    if (!known) return call; \
    pthread_mutex_lock(&lock); \
    int done = call; \
    if (!done) add_record(kind, "", status.st_ino, offset, NULL, 0); \
    pthread_mutex_unlock(&lock); \
    return done

int fsync(int fd) {
    REAL(int, fsync, int);
    CHANGE(fd, SYNCED, 0, real_fsync(fd));
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    CHANGE(fd, SYNCED, 0, real_fdatasync(fd));
}

int ftruncate(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t);
    CHANGE(fd, RESIZED, size, real_ftruncate(fd, size));
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, ftruncate64, int, off64_t);
    CHANGE(fd, RESIZED, size, real_ftruncate64(fd, size));
}

int truncate(const char *path, off_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int done = ftruncate(fd, size), saved = errno;
    close(fd);
    errno = saved;
    return done;
}

int truncate64(const char *path, off64_t size) { return truncate(path, size); }

/* Nothing of the store uses these; a recording that has one is refused. */
static void unknown(int fd, const char *call) {
    struct stat status;
    int saved = errno;
    if (is_recording() && !fstat(fd, &status) && S_ISREG(status.st_mode) && is_tracked(&status)) {
        pthread_mutex_lock(&lock);
        add_record(UNKNOWN, call, status.st_ino, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
}

int fallocate(int fd, int mode, off_t at, off_t bytes) {
    REAL(int, fallocate, int, int, off_t, off_t);
    unknown(fd, "fallocate");
    return real_fallocate(fd, mode, at, bytes);
}

int fallocate64(int fd, int mode, off64_t at, off64_t bytes) { return fallocate(fd, mode, at, bytes); }

int posix_fallocate(int fd, off_t at, off_t bytes) {
    REAL(int, posix_fallocate, int, off_t, off_t);
    unknown(fd, "posix_fallocate");
    return real_posix_fallocate(fd, at, bytes);
}

int posix_fallocate64(int fd, off64_t at, off64_t bytes) { return posix_fallocate(fd, at, bytes); }

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *start, size_t bytes, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    unknown(to, "copy_file_range");
    return real_copy_file_range(from, at, to, start, bytes, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t bytes) {
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    unknown(to, "sendfile");
    return real_sendfile64(to, from, at, bytes);
}

ssize_t sendfile(int to, int from, off_t *at, size_t bytes) { return sendfile64(to, from, at, bytes); }

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    if (fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE)) unknown(fd, "mmap");
    return real_mmap(address, bytes, protection, flags, fd, at);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t at) {
    return mmap(address, bytes, protection, flags, fd, at);
}

/* Calls and records a change of names: the second path is the record's data. */
#define RENAME(first_folder, first, second_folder, second, kind, call) \
    char before[PATH_MAX], after[PATH_MAX]; \
    int from_here = below_root(first_folder, first, before), to_here = below_root(second_folder, second, after); \
    if (!from_here && !to_here) return call; \
    pthread_mutex_lock(&lock); \
    int done = call; \
    if (!done && from_here && to_here) add_record(kind, before, 0, 0, after, strlen(after)); \
    else if (!done) add_record(UNKNOWN, "rename across the root", 0, 0, NULL, 0); \
    pthread_mutex_unlock(&lock); \
    return done

int renameat(int first_folder, const char *first, int second_folder, const char *second) {
    REAL(int, renameat, int, const char *, int, const char *);
    RENAME(first_folder, first, second_folder, second, RENAMED, real_renameat(first_folder, first, second_folder, second));
}

int renameat2(int first_folder, const char *first, int second_folder, const char *second, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    RENAME(first_folder, first, second_folder, second, flags & ~1u ? UNKNOWN : RENAMED,
           real_renameat2(first_folder, first, second_folder, second, flags));
}

int rename(const char *first, const char *second) { return renameat(AT_FDCWD, first, AT_FDCWD, second); }

int linkat(int first_folder, const char *first, int second_folder, const char *second, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    RENAME(first_folder, first, second_folder, second, LINKED,
           real_linkat(first_folder, first, second_folder, second, flags));
}

int link(const char *first, const char *second) { return linkat(AT_FDCWD, first, AT_FDCWD, second, 0); }

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char found[PATH_MAX];
    if (!below_root(folder, path, found)) return real_unlinkat(folder, path, flags);
    pthread_mutex_lock(&lock);
    int done = real_unlinkat(folder, path, flags);
    if (!done) add_record(UNLINKED, found, 0, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    char found[PATH_MAX];
    if (!below_root(folder, path, found)) return real_mkdirat(folder, path, mode);
    pthread_mutex_lock(&lock);
    int done = real_mkdirat(folder, path, mode);
    struct stat status;
    if (!done && !fstatat(folder, path, &status, 0)) {
        track(&status);
        add_record(MADE_DIRECTORY, found, status.st_ino, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
