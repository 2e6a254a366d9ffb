/* Records each change of the files in one folder, in the order in which they happen, for every process that has this
 * preloaded. Nothing is really synced: only the record says that it was.
 *
 * A sync may be made to fail. As on Linux since 4.13, each descriptor that was open then hears of it once.
 *
 * In the environment: POWER_LOSS_FOLDER, whose files count; POWER_LOSS_RECORD, the file for the record; POWER_LOSS_STATE, what
 * all processes share; POWER_LOSS_LIES, if set, makes syncs say that they did what they did not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, FAILED_SYNC, UNLINK, RENAME, LINK };
enum of { MAIN, LOG, OTHER, FOLDER, KINDS };
enum { DESCRIPTORS = 65536 };

struct record { uint64_t kind, file, offset, length; };

/* What all processes share. `fail`: so many of the next syncs fail. `errors`: so many have. */
struct state { uint64_t fail[KINDS], errors[KINDS]; };

static struct { int known; enum of of; uint64_t file, heard; } descriptors[DESCRIPTORS];
static pthread_mutex_t one_thread = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static struct state *state;
static int record_to = -1, lies;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void broken(const char *what) {
  static const char text[] = "power-loss: the record can't be kept: ";
  if (REAL(write)(2, text, sizeof text - 1) < 0 || REAL(write)(2, what, strlen(what)) < 0) _exit(99);
  _exit(99);
}

__attribute__((constructor)) static void begin(void) {
  const char *record = getenv("POWER_LOSS_RECORD"), *shared = getenv("POWER_LOSS_STATE");
  folder = getenv("POWER_LOSS_FOLDER");
  lies = getenv("POWER_LOSS_LIES") != NULL;
  if (!folder || !record || !shared) return;
  int fd = REAL(open)(shared, O_RDWR | O_CLOEXEC);
  record_to = REAL(open)(record, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0 || record_to < 0) broken("it can't be opened\n");
  state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (state == MAP_FAILED) broken("no memory is shared\n");
}

/* One at a time, of all threads of all processes. The system gives it back when a process dies. */
static void lock(void) {
  pthread_mutex_lock(&one_thread);
  while (flock(record_to, LOCK_EX) != 0)
    if (errno != EINTR) broken("it can't be locked\n");
}

static void unlock(void) {
  int error = errno;
  flock(record_to, LOCK_UN);
  pthread_mutex_unlock(&one_thread);
  errno = error;
}

static void record(enum kind kind, uint64_t file, uint64_t offset, const void *data, uint64_t length, uint64_t bytes) {
  struct record head = {kind, file, offset, length};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)data, bytes}};
  if (REAL(writev)(record_to, parts, 2) != (ssize_t)(sizeof head + bytes)) broken("it can't be written\n");
}

static void record_name(enum kind kind, uint64_t file, const char *name) {
  record(kind, file, 0, name, strlen(name), strlen(name));
}

static int ends_with(const char *text, const char *end) {
  size_t whole = strlen(text), length = strlen(end);
  return whole > length && strcmp(text + whole - length, end) == 0;
}

/* The name inside of the folder; the empty one for the folder itself; none for what does not count. */
static const char *counted(const char *path) {
  if (!state) return NULL;
  size_t length = strlen(folder);
  if (strncmp(path, folder, length) != 0) return NULL;
  if (path[length] == 0) return path + length;
  if (path[length] != '/' || strchr(path + length + 1, '/')) return NULL;
  /* The index of a log does not outlive the last who has it open, and a reserve has no content. */
  if (ends_with(path, "-shm") || ends_with(path, "-reserve")) return NULL;
  return path + length + 1;
}

static enum of kind_of(const char *name) {
  if (!*name) return FOLDER;
  if (ends_with(name, ".db")) return MAIN;
  return ends_with(name, "-wal") ? LOG : OTHER;
}

static int is_known(int fd) { return fd >= 0 && fd < DESCRIPTORS && descriptors[fd].known; }

static int open_counted(const char *path, const char *name, int flags, mode_t mode) {
  struct stat found;
  lock();
  int is_new = (flags & O_CREAT) && stat(path, &found) != 0;
  int fd = REAL(open)(path, flags, mode);
  if (fd >= 0 && fstat(fd, &found) == 0) {
    if (fd >= DESCRIPTORS) broken("too many are open\n");
    descriptors[fd].of = kind_of(name);
    descriptors[fd].file = found.st_ino;
    descriptors[fd].heard = state->errors[descriptors[fd].of];
    descriptors[fd].known = 1;
    if (is_new) record_name(CREATE, found.st_ino, name);
    else if (flags & O_TRUNC) record(TRUNCATE, found.st_ino, 0, NULL, 0, 0);
  }
  unlock();
  return fd;
}

#define OPEN(function)                                                       \
  int function(const char *path, int flags, ...) {                           \
    mode_t mode = 0;                                                         \
    if (flags & (O_CREAT | O_TMPFILE)) {                                     \
      va_list rest;                                                          \
      va_start(rest, flags);                                                 \
      mode = va_arg(rest, mode_t);                                           \
      va_end(rest);                                                          \
    }                                                                        \
    const char *name = counted(path);                                        \
    return name ? open_counted(path, name, flags, mode) : REAL(function)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

int close(int fd) {
  if (is_known(fd)) descriptors[fd].known = 0;
  return REAL(close)(fd);
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t offset, int moves) {
  lock();
  if (moves) offset = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
  ssize_t written = moves ? REAL(write)(fd, data, length) : REAL(pwrite)(fd, data, length, offset);
  if (written > 0) record(WRITE, descriptors[fd].file, offset, data, written, written);
  unlock();
  return written;
}

ssize_t write(int fd, const void *data, size_t length) {
  return is_known(fd) ? write_at(fd, data, length, 0, 1) : REAL(write)(fd, data, length);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  return is_known(fd) ? write_at(fd, data, length, offset, 0) : REAL(pwrite)(fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return pwrite(fd, data, length, offset); }

/* Other ways to write are not recorded: whoever takes one is told so. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (is_known(fd)) broken("writev\n");
  return REAL(writev)(fd, parts, count);
}
ssize_t copy_file_range(int from, off_t *at, int to, off_t *place, size_t length, unsigned flags) {
  if (is_known(to)) return errno = EXDEV, -1;
  return REAL(copy_file_range)(from, at, to, place, length, flags);
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
  if (is_known(fd)) return errno = EOPNOTSUPP, -1;
  return REAL(fallocate)(fd, mode, offset, length);
}

int ftruncate(int fd, off_t length) {
  if (!is_known(fd)) return REAL(ftruncate)(fd, length);
  lock();
  int result = REAL(ftruncate)(fd, length);
  if (result == 0) record(TRUNCATE, descriptors[fd].file, 0, NULL, length, 0);
  unlock();
  return result;
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static int sync_counted(int fd) {
  int result = 0;
  lock();
  enum of of = descriptors[fd].of;
  if (state->fail[of] > 0) {
    state->fail[of]--;
    state->errors[of]++;
    result = -1;
  }
  if (!lies) record(result ? FAILED_SYNC : SYNC, descriptors[fd].file, 0, NULL, 0, 0);
  if (descriptors[fd].heard != state->errors[of]) {
    descriptors[fd].heard = state->errors[of];
    result = -1;
    errno = EIO;
  }
  unlock();
  return result;
}

int fsync(int fd) { return is_known(fd) ? sync_counted(fd) : REAL(fsync)(fd); }
int fdatasync(int fd) { return is_known(fd) ? sync_counted(fd) : REAL(fdatasync)(fd); }

int unlink(const char *path) {
  const char *name = counted(path);
  if (!name) return REAL(unlink)(path);
  lock();
  int result = REAL(unlink)(path);
  if (result == 0) record_name(UNLINK, 0, name);
  unlock();
  return result;
}

/* `file` says how long the first of the two names is. */
static void record_names(enum kind kind, const char *from, const char *to) {
  char both[8192];
  int length = snprintf(both, sizeof both, "%s%s", from, to);
  if (length < 0 || length >= (int)sizeof both) broken("a name is too long\n");
  record_name(kind, strlen(from), both);
}

#define TWO(function, kind)                                                  \
  int function(const char *from, const char *to) {                           \
    const char *name = counted(from), *other = counted(to);                  \
    if (!name && !other) return REAL(function)(from, to);                    \
    if (!name || !other) broken(#function " across the folder's border\n");  \
    lock();                                                                  \
    int result = REAL(function)(from, to);                                   \
    if (result == 0) record_names(kind, name, other);                        \
    unlock();                                                                \
    return result;                                                           \
  }
TWO(rename, RENAME)
TWO(link, LINK)
int linkat(int a, const char *from, int b, const char *to, int flags) {
  if (counted(from) || counted(to)) return link(from, to);
  return REAL(linkat)(a, from, b, to, flags);
}
