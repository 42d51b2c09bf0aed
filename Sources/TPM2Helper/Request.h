/*
 * What protectfs(1) and its TPM helper say to each other: one request on standard input, one reply on standard output.
 *
 * Numbers are little-endian. `VolumeAccess/Credentials/TPM2Program.swift` has the other end.
 */
#ifndef PROTECTFS_TPM2_REQUEST_H
#define PROTECTFS_TPM2_REQUEST_H

#include <stdint.h>

enum { PFS_SECRET = 32, PFS_NAME = 34, PFS_LARGEST_BLOB = 512 };

/* The first byte of a request. */
enum pfs_action { PFS_SEAL = 1, PFS_UNSEAL = 2 };

/* The first byte of a reply. A number of the TPM or an errno, u32, follows; after a seal with a PIN it is an enum pfs_count. */
enum pfs_status {
    PFS_DONE = 0,
    PFS_NO_DEVICE = 1,      /* it cannot be opened: errno, or 0 */
    PFS_LOCKOUT = 2,        /* too many wrong PINs */
    PFS_WRONG_PIN = 3,
    PFS_OTHER_STATE = 4,    /* the PCRs are not those of the slot */
    PFS_OTHER_TPM = 5,      /* the TPM has another storage key */
    PFS_DAMAGED = 6,        /* the TPM refuses what is sealed */
    PFS_OWNER_PASSWORD = 7, /* the storage key cannot be made */
    PFS_NO_BANK = 8,        /* a PCR that was asked for has no SHA-256 value */
    PFS_FAILED = 9,         /* the TPM's number says more */
    PFS_MISUSED = 10,       /* the request has another form */
};

/* Whether everyone who may use the TPM can set its count of wrong PINs to zero. */
enum pfs_count { PFS_COUNT_KEPT = 0, PFS_COUNT_OPEN = 1 };

struct pfs_blob {
    uint16_t length;
    uint8_t bytes[PFS_LARGEST_BLOB];
};

/* Request: action u8, has a PIN u8, PCRs u32, auth value 32; then the secret 32 (seal), or name 34, public, private (unseal).
 * Reply: status u8, number u32; then name 34, public, private (seal), or the secret 32 (unseal). A blob is its length u16 and
 * its bytes. */
struct pfs_request {
    uint8_t action, has_pin;
    uint32_t pcrs;
    uint8_t auth[PFS_SECRET];
    uint8_t secret[PFS_SECRET];
    uint8_t name[PFS_NAME];
    struct pfs_blob public_part, private_part;
    /* The answer. */
    uint8_t status;
    uint32_t number;
};

/* Both give 0 if the other end does not keep to the form. */
int pfs_read_request(struct pfs_request *request);
int pfs_write_reply(const struct pfs_request *request);

/* Does what is asked with the TPM of a TCTI, and leaves the answer in the request. */
void pfs_run_request(struct pfs_request *request, const char *tcti);

#endif
