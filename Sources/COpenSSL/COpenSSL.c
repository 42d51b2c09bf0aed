#include "COpenSSL.h"
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum { KEY_SIZE = 32, TAG_SIZE = 16, ALIGNMENT = 16 };

static EVP_CIPHER *cipher;

/* Set only while this thread makes a context: the memory that libcrypto gets. */
static _Thread_local struct {
    uint8_t *start, *next, *end;
} given;

static void *allocate(size_t size, const char *file, int line) {
    (void)file, (void)line;
    if (size == 0) return NULL;
    if (!given.start) return malloc(size);
    if (size > (size_t)(given.end - given.next)) return NULL;
    void *result = given.next;
    size_t whole = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t left = (size_t)(given.end - given.next);
    given.next += whole < left ? whole : left;
    return result;
}

static void *reallocate(void *memory, size_t size, const char *file, int line) {
    (void)file, (void)line;
    if (size != 0) return realloc(memory, size);
    free(memory);
    return NULL;
}

static void release(void *memory, const char *file, int line) {
    (void)file, (void)line;
    if (given.start && (uint8_t *)memory >= given.start && (uint8_t *)memory < given.end) return;
    free(memory);
}

int pfs_gcm_prepare(void) {
    if (!CRYPTO_set_mem_functions(allocate, reallocate, release)) return 0;
    /* No configuration file, which could replace the cipher. No clean-up at exit, when other threads may still use it. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL)) return 0;
    cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    return cipher != NULL && EVP_CIPHER_get_key_length(cipher) == KEY_SIZE;
}

int pfs_gcm_make_context(void *memory, size_t size) {
    given.start = given.next = memory;
    given.end = given.start + size;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    /* Without a key, this allocates all that the cipher needs later. */
    int made = context == memory && EVP_CipherInit_ex2(context, cipher, NULL, NULL, 1, NULL) == 1;
    given.start = NULL;
    return made;
}

/* The schedule of a key of zeros, and all that follows from it, replaces that of the last key. */
static int forget(EVP_CIPHER_CTX *context) {
    static const uint8_t zeros[KEY_SIZE];
    return EVP_CipherInit_ex2(context, NULL, zeros, NULL, 1, NULL) == 1;
}

/* Takes the associated data and the text, up to the tag. */
static int process(EVP_CIPHER_CTX *context, const uint8_t *data, size_t data_size, const uint8_t *input, size_t size,
                   uint8_t *output) {
    int count;
    if (data_size > INT_MAX || size > INT_MAX) return 0;
    if (data_size > 0 && EVP_CipherUpdate(context, NULL, &count, data, (int)data_size) != 1) return 0;
    return EVP_CipherUpdate(context, output, &count, input, (int)size) == 1 && (size_t)count == size;
}

int pfs_gcm_seal(void *context, const uint8_t *key, const uint8_t *nonce, const uint8_t *data, size_t data_size,
                 const uint8_t *input, size_t size, uint8_t *output, uint8_t *tag) {
    int none;
    int done = EVP_CipherInit_ex2(context, NULL, key, nonce, 1, NULL) == 1 &&
               process(context, data, data_size, input, size, output) &&
               EVP_CipherFinal_ex(context, output + size, &none) == 1 &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_SIZE, tag) == 1;
    return forget(context) && done;
}

int pfs_gcm_open(void *context, const uint8_t *key, const uint8_t *nonce, const uint8_t *data, size_t data_size,
                 const uint8_t *input, size_t size, uint8_t *output, const uint8_t *tag) {
    int none;
    /* libcrypto only reads the tag; its argument is for both directions. */
    int done = EVP_CipherInit_ex2(context, NULL, key, nonce, 0, NULL) == 1 &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG_SIZE, (void *)tag) == 1 &&
               process(context, data, data_size, input, size, output) &&
               EVP_CipherFinal_ex(context, output + size, &none) == 1;
    return forget(context) && done;
}
