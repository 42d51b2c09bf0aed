/*
 * The functions of libfido2 that protectfs calls, from a library that is loaded when they are first needed.
 *
 * Most starts of protectfs use no security key. So the program is not linked with the library, which would also load
 * libraries for USB and CBOR, and the package only recommends it. Building does not need its header either: the declarations
 * are here, and where the header is installed, the compiler compares them with it.
 */
#ifndef PROTECTFS_CFIDO2_H
#define PROTECTFS_CFIDO2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fido_dev;
struct fido_dev_info;
struct fido_dev_io;
struct fido_cbor_info;
struct fido_cred;
struct fido_assert;

/* The transport of reports that is not USB: connect, disconnect, receive one report within milliseconds, send one. */
struct pfs_fido_io {
    void *(*open)(const char *path);
    void (*close)(void *handle);
    int (*read)(void *handle, unsigned char *bytes, size_t length, int milliseconds);
    int (*write)(void *handle, const unsigned char *bytes, size_t length);
};

/* The functions: USE(result, name without its prefix, parameters). */
#define PFS_FIDO_FUNCTIONS(USE)                                                                                        \
    USE(void, init, (int))                                                                                             \
    USE(const char *, strerr, (int))                                                                                   \
    USE(struct fido_dev_info *, dev_info_new, (size_t))                                                                \
    USE(void, dev_info_free, (struct fido_dev_info **, size_t))                                                        \
    USE(int, dev_info_manifest, (struct fido_dev_info *, size_t, size_t *))                                            \
    USE(const struct fido_dev_info *, dev_info_ptr, (const struct fido_dev_info *, size_t))                            \
    USE(const char *, dev_info_path, (const struct fido_dev_info *))                                                   \
    USE(const char *, dev_info_manufacturer_string, (const struct fido_dev_info *))                                    \
    USE(const char *, dev_info_product_string, (const struct fido_dev_info *))                                         \
    USE(struct fido_dev *, dev_new, (void))                                                                            \
    USE(void, dev_free, (struct fido_dev **))                                                                          \
    USE(int, dev_open, (struct fido_dev *, const char *))                                                              \
    USE(int, dev_close, (struct fido_dev *))                                                                           \
    USE(int, dev_cancel, (struct fido_dev *))                                                                          \
    USE(int, dev_set_io_functions, (struct fido_dev *, const struct fido_dev_io *))                                    \
    USE(int, dev_set_timeout, (struct fido_dev *, int))                                                                \
    USE(bool, dev_is_fido2, (const struct fido_dev *))                                                                 \
    USE(bool, dev_has_pin, (const struct fido_dev *))                                                                  \
    USE(int, dev_get_cbor_info, (struct fido_dev *, struct fido_cbor_info *))                                          \
    USE(int, dev_get_retry_count, (struct fido_dev *, int *))                                                          \
    USE(int, dev_make_cred, (struct fido_dev *, struct fido_cred *, const char *))                                     \
    USE(int, dev_get_assert, (struct fido_dev *, struct fido_assert *, const char *))                                  \
    USE(struct fido_cbor_info *, cbor_info_new, (void))                                                                \
    USE(void, cbor_info_free, (struct fido_cbor_info **))                                                              \
    USE(char **, cbor_info_extensions_ptr, (const struct fido_cbor_info *))                                            \
    USE(size_t, cbor_info_extensions_len, (const struct fido_cbor_info *))                                             \
    USE(struct fido_cred *, cred_new, (void))                                                                          \
    USE(void, cred_free, (struct fido_cred **))                                                                        \
    USE(int, cred_set_type, (struct fido_cred *, int))                                                                 \
    USE(int, cred_set_clientdata_hash, (struct fido_cred *, const unsigned char *, size_t))                            \
    USE(int, cred_set_rp, (struct fido_cred *, const char *, const char *))                                            \
    USE(int, cred_set_user, (struct fido_cred *, const unsigned char *, size_t, const char *, const char *, const char *)) \
    USE(int, cred_set_extensions, (struct fido_cred *, int))                                                           \
    USE(int, cred_set_rk, (struct fido_cred *, unsigned))                                                              \
    USE(const unsigned char *, cred_id_ptr, (const struct fido_cred *))                                                \
    USE(size_t, cred_id_len, (const struct fido_cred *))                                                               \
    USE(struct fido_assert *, assert_new, (void))                                                                      \
    USE(void, assert_free, (struct fido_assert **))                                                                    \
    USE(int, assert_set_clientdata_hash, (struct fido_assert *, const unsigned char *, size_t))                        \
    USE(int, assert_set_rp, (struct fido_assert *, const char *))                                                      \
    USE(int, assert_allow_cred, (struct fido_assert *, const unsigned char *, size_t))                                 \
    USE(int, assert_set_extensions, (struct fido_assert *, int))                                                       \
    USE(int, assert_set_hmac_salt, (struct fido_assert *, const unsigned char *, size_t))                              \
    USE(int, assert_set_up, (struct fido_assert *, unsigned))                                                          \
    USE(size_t, assert_count, (const struct fido_assert *))                                                            \
    USE(const unsigned char *, assert_hmac_secret_ptr, (const struct fido_assert *, size_t))                           \
    USE(size_t, assert_hmac_secret_len, (const struct fido_assert *, size_t))

#define PFS_FIDO_MEMBER(RESULT, NAME, PARAMETERS) RESULT(*NAME) PARAMETERS;
struct pfs_fido {
    PFS_FIDO_FUNCTIONS(PFS_FIDO_MEMBER)
};

/* Arguments. */
enum {
    PFS_FIDO_NO_U2F = 2,
    PFS_FIDO_HMAC_SECRET = 1,
    PFS_FIDO_ES256 = -7,
    PFS_FIDO_FALSE = 1,
    PFS_FIDO_TRUE = 2,
};

/* Results: the status codes of CTAP, and two of the library's own. */
enum {
    PFS_FIDO_OK = 0,
    PFS_FIDO_UNSUPPORTED_EXTENSION = 0x16,
    PFS_FIDO_INVALID_CREDENTIAL = 0x22,
    PFS_FIDO_UNSUPPORTED_ALGORITHM = 0x26,
    PFS_FIDO_OPERATION_DENIED = 0x27,
    PFS_FIDO_UNSUPPORTED_OPTION = 0x2b,
    PFS_FIDO_KEEPALIVE_CANCEL = 0x2d,
    PFS_FIDO_NO_CREDENTIALS = 0x2e,
    PFS_FIDO_USER_ACTION_TIMEOUT = 0x2f,
    PFS_FIDO_PIN_INVALID = 0x31,
    PFS_FIDO_PIN_BLOCKED = 0x32,
    PFS_FIDO_PIN_AUTH_BLOCKED = 0x34,
    PFS_FIDO_PIN_NOT_SET = 0x35,
    PFS_FIDO_PIN_REQUIRED = 0x36,
    PFS_FIDO_ACTION_TIMEOUT = 0x3a,
    PFS_FIDO_TX = -1,
    PFS_FIDO_RX = -2,
};

/*
 * Loads the library and fills in the functions. Returns 1, or 0 if the library is not installed or lacks one of them; then
 * no member may be used. It is never unloaded.
 */
int pfs_fido_load(struct pfs_fido *functions);
/* Has the device use another transport. */
int pfs_fido_set_io(const struct pfs_fido *functions, struct fido_dev *device, const struct pfs_fido_io *io);

#endif
