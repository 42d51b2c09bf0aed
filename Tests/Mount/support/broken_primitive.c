/* One primitive with a wrong bit, in place of a library's: for LD_PRELOAD. Which one, says the macro it is compiled with. */
#define _GNU_SOURCE
#include <dlfcn.h>

#if defined(IPSEC_MB)
#include <intel-ipsec-mb.h>

static aes_gcm_enc_dec_t right;

/* Wrong from a page's length on only: what a small vector does not show. */
static void wrong(const struct gcm_key_data *key, struct gcm_context_data *context, uint8_t *out, const uint8_t *in,
                  uint64_t length, const uint8_t *iv, const uint8_t *aad, uint64_t aad_length, uint8_t *tag,
                  uint64_t tag_length) {
    right(key, context, out, in, length, iv, aad, aad_length, tag, tag_length);
    if (length >= 4000) out[length - 1] ^= 1;
}

void init_mb_mgr_auto(IMB_MGR *manager, IMB_ARCH *architecture) {
    void (*real)(IMB_MGR *, IMB_ARCH *) = (void (*)(IMB_MGR *, IMB_ARCH *))dlsym(RTLD_NEXT, "init_mb_mgr_auto");
    real(manager, architecture);
    right = manager->gcm256_enc;
    manager->gcm256_enc = wrong;
}
#elif defined(OPENSSL)
typedef struct evp_cipher_ctx_st Context;

/* Wrong from a page's length on only, as above. */
int EVP_CipherUpdate(Context *context, unsigned char *out, int *done, const unsigned char *in, int length) {
    int (*real)(Context *, unsigned char *, int *, const unsigned char *, int) =
        (int (*)(Context *, unsigned char *, int *, const unsigned char *, int))dlsym(RTLD_NEXT, "EVP_CipherUpdate");
    int result = real(context, out, done, in, length);
    if (out && length >= 4000) out[length - 1] ^= 1;
    return result;
}
#elif defined(BLAKE)
int crypto_generichash_final(void *state, unsigned char *out, unsigned long length) {
    int (*real)(void *, unsigned char *, unsigned long) =
        (int (*)(void *, unsigned char *, unsigned long))dlsym(RTLD_NEXT, "crypto_generichash_final");
    int result = real(state, out, length);
    out[0] ^= 1;
    return result;
}
#elif defined(NOTHING)
int crypto_generichash_final(void *state, unsigned char *out, unsigned long length) {
    int (*real)(void *, unsigned char *, unsigned long) =
        (int (*)(void *, unsigned char *, unsigned long))dlsym(RTLD_NEXT, "crypto_generichash_final");
    return real(state, out, length);
}
#endif
