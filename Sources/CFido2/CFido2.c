/* Loads libfido2, finds its functions, and compares their declarations with its header. */
#include "CFido2.h"

#include <dlfcn.h>
#include <string.h>

/* The name with the version of its interface, as Debian's package libfido2-1 installs it. */
static const char library[] = "libfido2.so.1";

#define PFS_FIDO_FIND(RESULT, NAME, PARAMETERS)                                                                        \
    found = dlsym(handle, "fido_" #NAME);                                                                              \
    if (!found) return 0;                                                                                              \
    memcpy(&functions->NAME, &found, sizeof found);

int pfs_fido_load(struct pfs_fido *functions)
{
    void *found, *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return 0;
    PFS_FIDO_FUNCTIONS(PFS_FIDO_FIND)
    return 1;
}

int pfs_fido_set_io(const struct pfs_fido *functions, struct fido_dev *device, const struct pfs_fido_io *io)
{
    /* The library copies the struct, whose members are compared below. */
    return functions->dev_set_io_functions(device, (const struct fido_dev_io *)io);
}

#if __has_include(<fido.h>)
#include <fido.h>
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wunused-value"

/* An assignment that is never made, so that another type of function does not compile. */
#define PFS_FIDO_SAME(RESULT, NAME, PARAMETERS)                                                                        \
    _Static_assert(sizeof(((struct pfs_fido *)0)->NAME = fido_##NAME) == sizeof(void *), #NAME);
PFS_FIDO_FUNCTIONS(PFS_FIDO_SAME)

#define PFS_FIDO_SAME_MEMBER(NAME)                                                                                     \
    _Static_assert(sizeof(((struct pfs_fido_io *)0)->NAME = ((fido_dev_io_t *)0)->NAME) == sizeof(void *), #NAME);     \
    _Static_assert(offsetof(struct pfs_fido_io, NAME) == offsetof(fido_dev_io_t, NAME), #NAME);
PFS_FIDO_SAME_MEMBER(open)
PFS_FIDO_SAME_MEMBER(close)
PFS_FIDO_SAME_MEMBER(read)
PFS_FIDO_SAME_MEMBER(write)
_Static_assert(sizeof(struct pfs_fido_io) == sizeof(fido_dev_io_t), "fido_dev_io_t");

#define PFS_FIDO_SAME_VALUE(OWN, NAME) _Static_assert((int)OWN == (int)NAME, #NAME);
PFS_FIDO_SAME_VALUE(PFS_FIDO_NO_U2F, FIDO_DISABLE_U2F_FALLBACK)
PFS_FIDO_SAME_VALUE(PFS_FIDO_HMAC_SECRET, FIDO_EXT_HMAC_SECRET)
PFS_FIDO_SAME_VALUE(PFS_FIDO_ES256, COSE_ES256)
PFS_FIDO_SAME_VALUE(PFS_FIDO_FALSE, FIDO_OPT_FALSE)
PFS_FIDO_SAME_VALUE(PFS_FIDO_TRUE, FIDO_OPT_TRUE)
PFS_FIDO_SAME_VALUE(PFS_FIDO_OK, FIDO_OK)
#define PFS_FIDO_SAME_STATUS(NAME) PFS_FIDO_SAME_VALUE(PFS_FIDO_##NAME, FIDO_ERR_##NAME)
PFS_FIDO_SAME_STATUS(UNSUPPORTED_EXTENSION)
PFS_FIDO_SAME_STATUS(INVALID_CREDENTIAL)
PFS_FIDO_SAME_STATUS(UNSUPPORTED_ALGORITHM)
PFS_FIDO_SAME_STATUS(OPERATION_DENIED)
PFS_FIDO_SAME_STATUS(UNSUPPORTED_OPTION)
PFS_FIDO_SAME_STATUS(KEEPALIVE_CANCEL)
PFS_FIDO_SAME_STATUS(NO_CREDENTIALS)
PFS_FIDO_SAME_STATUS(USER_ACTION_TIMEOUT)
PFS_FIDO_SAME_STATUS(PIN_INVALID)
PFS_FIDO_SAME_STATUS(PIN_BLOCKED)
PFS_FIDO_SAME_STATUS(PIN_AUTH_BLOCKED)
PFS_FIDO_SAME_STATUS(PIN_NOT_SET)
PFS_FIDO_SAME_STATUS(PIN_REQUIRED)
PFS_FIDO_SAME_STATUS(ACTION_TIMEOUT)
PFS_FIDO_SAME_STATUS(TX)
PFS_FIDO_SAME_STATUS(RX)
#endif
