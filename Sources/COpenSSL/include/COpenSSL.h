/* AES-256-GCM of OpenSSL's libcrypto, with its contexts in memory that the caller gives. */
#ifndef PROTECTFS_COPENSSL_H
#define PROTECTFS_COPENSSL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Prepares libcrypto. 0 if it has no AES-256-GCM, or if the process has used it before, because then its allocations cannot be
 * directed any more. Call it once.
 */
int pfs_gcm_prepare(void);

/*
 * Makes a context of `size` bytes at `memory`, which is aligned to 16. 0 if it needs more. It uses nothing outside of them
 * that must be freed, so it ends when they are wiped.
 */
int pfs_gcm_make_context(void *memory, size_t size);

/*
 * Encrypts `size` bytes and writes the 16-byte tag. `output` is `input` or does not overlap it. The context has the key during
 * the call only, and serves one call at a time. 0 if libcrypto fails.
 */
int pfs_gcm_seal(void *context, const uint8_t *key, const uint8_t *nonce, const uint8_t *data, size_t data_size,
                 const uint8_t *input, size_t size, uint8_t *output, uint8_t *tag);

/* Decrypts likewise. 0 if the tag is wrong, and `output` then has what the caller must wipe. */
int pfs_gcm_open(void *context, const uint8_t *key, const uint8_t *nonce, const uint8_t *data, size_t data_size,
                 const uint8_t *input, size_t size, uint8_t *output, const uint8_t *tag);

#endif
