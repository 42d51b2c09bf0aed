/* Process-level calls that Swift cannot make itself: they are variadic or macros. No logic. */
#ifndef PROTECTFS_HOSTSHIM_H
#define PROTECTFS_HOSTSHIM_H

/* prctl(PR_SET_DUMPABLE, 0). */
int pfs_make_undumpable(void);
/* setrlimit(RLIMIT_CORE, 0). */
int pfs_forbid_core_files(void);
/* Gives what malloc keeps free back to the kernel, of every thread's arena. */
void pfs_trim_heap(void);
/* Takes away what others have installed for signals that end a process; what is ignored stays so. */
void pfs_forget_crash_handlers(void);
/* Soft RLIMIT_NOFILE raised to the hard one. */
int pfs_raise_open_files(void);
/* prctl(PR_SET_NAME). */
int pfs_set_process_name(const char *name);
/* Writes stars over this process's own argument `index`, from byte `from` on, where /proc and ps(1) read it. */
void pfs_hide_argument(long index, long from);
/* One line to syslog(3); priority is LOG_ERR and so on. */
void pfs_syslog(int priority, const char *line);
/* Columns of the terminal, or -1. */
int pfs_terminal_columns(int fd);
/* pipe2(ends, O_CLOEXEC). */
int pfs_pipe(int ends[2]);

/* lgetxattr, lsetxattr, lremovexattr(2). */
long pfs_lgetxattr(const char *path, const char *name, void *value, unsigned long size);
int pfs_lsetxattr(const char *path, const char *name, const void *value, unsigned long size);
int pfs_lremovexattr(const char *path, const char *name);
/*
 * Opens what of descriptors 0, 1 and 2 is closed on /dev/null, for reading: a write to a closed stream fails with EBADF as
 * before, and nothing else can get its number. -1 where that cannot be done.
 */
int pfs_open_standard_streams(void);
/* close_range(2) from `first` on. */
int pfs_close_from(int first);
/* pidfd_open(2). */
int pfs_pidfd_open(int pid);

#endif
