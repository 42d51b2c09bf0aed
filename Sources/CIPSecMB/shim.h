#include <intel-ipsec-mb.h>

/* Whether the library only emulates AES-NI, which versions before 2.0 can do. */
static inline int pfs_imb_is_emulated(IMB_ARCH architecture) {
#if IMB_VERSION_NUM < IMB_VERSION(2, 0, 0)
    return architecture == IMB_ARCH_NOAESNI;
#else
    (void)architecture;
    return 0;
#endif
}
