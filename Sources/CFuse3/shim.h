/* libfuse's low-level interface, at the API level that Debian 12's 3.14 has. */
#ifndef PROTECTFS_CFUSE3_H
#define PROTECTFS_CFUSE3_H
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

/* fuse_session_new is a macro with arguments since libfuse 3.17, which Swift does not see. */
static inline struct fuse_session *pfs_fuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, size_t size, void *userdata) {
    return fuse_session_new(arguments, operations, size, userdata);
}
#endif
