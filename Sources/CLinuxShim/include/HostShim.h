/* Calls of the process that Swift cannot make itself, because they are variadic or macros. No logic. */
#ifndef PROTECTFS_HOSTSHIM_H
#define PROTECTFS_HOSTSHIM_H

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* prctl(PR_SET_DUMPABLE, 0). */
int pfs_make_undumpable(void);
/* setrlimit(RLIMIT_CORE, 0). */
int pfs_forbid_core_files(void);
/* Returns free memory of every thread's arena to the kernel (malloc_trim(3)). */
void pfs_trim_heap(void);
/* Has malloc overwrite what is freed or moved. glibc reads that setting at the start of a program only, so this starts the program
   again in the same process, once, with these arguments. Nothing may have been done yet. Musl has no such setting. */
void pfs_wipe_freed_memory(char **arguments);
/* Removes handlers of signals that end a process. Ignored signals remain ignored. */
void pfs_forget_crash_handlers(void);
/* A lock for which a waiting writer comes before new readers. Musl has no such kind; there readers can delay a writer. */
int pfs_init_writers_lock(pthread_rwlock_t *lock);
/* environ(7). */
char **pfs_environment(void);
/* Has a signal call `handler`, and interrupt system calls. The fields of sigaction(2) have other names in each C library. */
void pfs_handle_signal(int number, void (*handler)(int));
/* Whether a signal is ignored with this action. */
int pfs_is_ignored(const struct sigaction *action);
/* getrlimit(2) of RLIMIT_NOFILE and RLIMIT_MEMLOCK, whose type is another one in each C library. */
int pfs_open_files_limit(struct rlimit *limit);
int pfs_locked_memory_limit(struct rlimit *limit);
/* Raises the soft RLIMIT_NOFILE to the hard one. */
int pfs_raise_open_files(void);
/* Takes away RLIMIT_FSIZE and RLIMIT_CPU, or raises them to the hard limits; SIGXFSZ and SIGXCPU are ignored. Bit 0 is set if
   RLIMIT_FSIZE stays finite, bit 1 if RLIMIT_CPU does. */
int pfs_lift_limits(void);
/* Waits until a descriptor can be read (ppoll(2)), with this mask of signals meanwhile. */
int pfs_wait_for_input(int descriptor, const sigset_t *mask);
/* prctl(PR_SET_NAME). */
int pfs_set_process_name(const char *name);
/* Writes stars over this process's argument `index`, from byte `from` on, in the memory that /proc and ps(1) read. */
void pfs_hide_argument(long index, long from);
/* Writes one line with syslog(3). The priority is LOG_ERR and so on. */
void pfs_syslog(int priority, const char *line);
/* pipe2(ends, O_CLOEXEC). */
int pfs_pipe(int ends[2]);
/* eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), and reading and writing its number. */
int pfs_event_descriptor(void);
void pfs_event_raise(int descriptor);
void pfs_event_clear(int descriptor);
/* signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK): for poll(2), as sigtimedwait(2) takes the signal. */
int pfs_signal_descriptor(const sigset_t *set);

/* lgetxattr, lsetxattr, lremovexattr(2). */
long pfs_lgetxattr(const char *path, const char *name, void *value, unsigned long size);
int pfs_lsetxattr(const char *path, const char *name, const void *value, unsigned long size);
int pfs_lremovexattr(const char *path, const char *name);
/*
 * Opens closed descriptors among 0, 1 and 2 on /dev/null, so that no other file gets their numbers. They are opened for
 * reading, so that a write still fails with EBADF. -1 on failure.
 */
int pfs_open_standard_streams(void);
/* close_range(2) from `first` on. */
int pfs_close_from(int first);
/* pidfd_open(2). */
int pfs_pidfd_open(int pid);
/* pidfd_send_signal(2). */
int pfs_pidfd_send_signal(int pidfd, int signal);

/* Whether the processor has instructions for AES and for GCM's multiplication. */
int pfs_has_aes_instructions(void);
/* Fills the vector registers with zeros, as no call needs them afterwards. */
void pfs_clear_vector_registers(void);

#endif
