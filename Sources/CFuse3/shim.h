/* libfuse's low-level interface, at the API level that Debian 12's 3.14 has. */
#ifndef PROTECTFS_CFUSE3_H
#define PROTECTFS_CFUSE3_H
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#endif
