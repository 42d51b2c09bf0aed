/*
 * Sealing and unsealing with ESAPI, under a policy of PCRs and a PIN. Secrets cross the bus in encrypted parameters only.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_tctildr.h>
#include <unistd.h>

#include "Request.h"

/* Where TCG's guidance puts the storage root key. */
enum { storage_root_key = 0x81000001 };

struct tpm {
    struct pfs_request *request;
    ESYS_CONTEXT *context;
    ESYS_TR parent, object, session, policy;
    int has_made_parent;
};

static const TPMT_SYM_DEF cipher = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB};
/* Of every storage key: made in this TPM, and never outside it. */
static const TPMA_OBJECT storage = TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT | TPMA_OBJECT_FIXEDTPM |
                                   TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH;

/* The error without the number of its parameter, handle or session; other layers' errors are 0. */
static uint32_t kind(TSS2_RC code) {
    uint32_t layer = code & TSS2_RC_LAYER_MASK;
    if (layer != TSS2_TPM_RC_LAYER && layer != TSS2_RESMGR_TPM_RC_LAYER) return 0;
    code &= 0xfff;
    return code & TPM2_RC_FMT1 ? code & 0xbf : code;
}

static int fail(struct tpm *tpm, enum pfs_status status, TSS2_RC code) {
    tpm->request->status = (uint8_t)status;
    tpm->request->number = code;
    return 0;
}

/* 1 if the call went well; else the errors that any command may give. */
static int well(struct tpm *tpm, TSS2_RC code) {
    if (code == TSS2_RC_SUCCESS) return 1;
    return fail(tpm, kind(code) == TPM2_RC_LOCKOUT ? PFS_LOCKOUT : PFS_FAILED, code);
}

/* ESYS computes it from the public part that sessions are salted with. The name that came over the bus may be false. */
static int name_of(struct tpm *tpm, ESYS_TR object, uint8_t *name) {
    TPM2B_NAME *found;
    if (Esys_TR_GetName(tpm->context, object, &found) != TSS2_RC_SUCCESS) return 0;
    int fits = found->size == PFS_NAME;
    if (fits) memcpy(name, found->name, PFS_NAME);
    Esys_Free(found);
    return fits;
}

/* Makes the storage key, which is the same each time until the TPM is cleared. */
static TSS2_RC make_parent(struct tpm *tpm) {
    TPM2B_SENSITIVE_CREATE none = {0};
    TPM2B_DATA outside = {0};
    TPML_PCR_SELECTION pcrs = {0};
    TPM2B_PUBLIC template = {.publicArea = {
        .type = TPM2_ALG_ECC, .nameAlg = TPM2_ALG_SHA256, .objectAttributes = storage | TPMA_OBJECT_NODA,
        .parameters.eccDetail = {
            .symmetric = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB},
            .scheme.scheme = TPM2_ALG_NULL, .curveID = TPM2_ECC_NIST_P256, .kdf.scheme = TPM2_ALG_NULL},
        .unique.ecc = {.x.size = 32, .y.size = 32}}};
    TSS2_RC code = Esys_CreatePrimary(
        tpm->context, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &none, &template, &outside, &pcrs,
        &tpm->parent, NULL, NULL, NULL, NULL);
    tpm->has_made_parent = code == TSS2_RC_SUCCESS;
    if (!tpm->has_made_parent) tpm->parent = ESYS_TR_NONE;
    return code;
}

/* Takes the key at the handle of the storage root key, if it is a storage key. */
static int take_parent(struct tpm *tpm) {
    TPM2B_PUBLIC *public_part;
    if (Esys_TR_FromTPMPublic(tpm->context, storage_root_key, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &tpm->parent) !=
        TSS2_RC_SUCCESS) {
        tpm->parent = ESYS_TR_NONE;
        return 0;
    }
    int fits = 0;
    if (Esys_ReadPublic(tpm->context, tpm->parent, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &public_part, NULL, NULL) ==
        TSS2_RC_SUCCESS) {
        fits = (public_part->publicArea.objectAttributes & storage) == storage;
        Esys_Free(public_part);
    }
    if (!fits) Esys_TR_Close(tpm->context, &tpm->parent);
    return fits;
}

static int cannot_make_parent(struct tpm *tpm, TSS2_RC code) {
    switch (kind(code)) {
    case TPM2_RC_BAD_AUTH:
    case TPM2_RC_AUTH_FAIL:
    case TPM2_RC_HIERARCHY: return fail(tpm, PFS_OWNER_PASSWORD, code);
    default: return well(tpm, code);
    }
}

/* The storage key whose name a slot has. Another one cannot have made what is sealed, nor is it told a secret. */
static int find_parent(struct tpm *tpm) {
    uint8_t name[PFS_NAME];
    if (take_parent(tpm)) {
        if (name_of(tpm, tpm->parent, name) && memcmp(name, tpm->request->name, PFS_NAME) == 0) return 1;
        Esys_TR_Close(tpm->context, &tpm->parent);
    }
    TSS2_RC code = make_parent(tpm);
    if (code != TSS2_RC_SUCCESS) return cannot_make_parent(tpm, code);
    if (name_of(tpm, tpm->parent, name) && memcmp(name, tpm->request->name, PFS_NAME) == 0) return 1;
    return fail(tpm, PFS_OTHER_TPM, 0);
}

/* A storage key for a new slot. */
static int choose_parent(struct tpm *tpm) {
    TSS2_RC code = make_parent(tpm);
    if (code != TSS2_RC_SUCCESS && !take_parent(tpm)) return cannot_make_parent(tpm, code);
    return name_of(tpm, tpm->parent, tpm->request->name) ? 1 : fail(tpm, PFS_FAILED, 0);
}

/* Begins a session whose key only the TPM with the storage key can know. */
static int begin(struct tpm *tpm, TPM2_SE type, TPMA_SESSION attributes, ESYS_TR *session) {
    if (!well(tpm, Esys_StartAuthSession(tpm->context, tpm->parent, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE,
                                         ESYS_TR_NONE, NULL, type, &cipher, TPM2_ALG_SHA256, session)))
        return 0;
    return well(tpm, Esys_TRSess_SetAttributes(tpm->context, *session, attributes | TPMA_SESSION_CONTINUESESSION, 0xff));
}

static TPML_PCR_SELECTION selection(uint32_t pcrs) {
    TPML_PCR_SELECTION result = {.count = 1, .pcrSelections[0] = {.hash = TPM2_ALG_SHA256, .sizeofSelect = 3}};
    for (int index = 0; index < 3; index++) result.pcrSelections[0].pcrSelect[index] = (BYTE)(pcrs >> 8 * index);
    return result;
}

/* Brings a policy session to the state that the sealed object asks for. The commands are protected by the other session. */
static int apply_policy(struct tpm *tpm) {
    TPM2B_DIGEST current = {0};
    TPML_PCR_SELECTION pcrs = selection(tpm->request->pcrs);
    if (!well(tpm, Esys_TRSess_SetAttributes(tpm->context, tpm->session,
                                             TPMA_SESSION_AUDIT | TPMA_SESSION_CONTINUESESSION, 0xff)))
        return 0;
    if (tpm->request->pcrs != 0 && !well(tpm, Esys_PolicyPCR(tpm->context, tpm->policy, tpm->session, ESYS_TR_NONE,
                                                            ESYS_TR_NONE, &current, &pcrs)))
        return 0;
    if (tpm->request->has_pin &&
        !well(tpm, Esys_PolicyAuthValue(tpm->context, tpm->policy, tpm->session, ESYS_TR_NONE, ESYS_TR_NONE)))
        return 0;
    return 1;
}

/* For the commands that carry secrets. */
static int encrypt(struct tpm *tpm, TPMA_SESSION more) {
    return well(tpm, Esys_TRSess_SetAttributes(tpm->context, tpm->session,
                                               TPMA_SESSION_ENCRYPT | TPMA_SESSION_CONTINUESESSION | more, 0xff));
}

static int has_pcrs(struct tpm *tpm) {
    TPML_PCR_SELECTION wanted = selection(tpm->request->pcrs), *found = NULL;
    TPML_DIGEST *values = NULL;
    if (tpm->request->pcrs == 0) return 1;
    if (!well(tpm, Esys_PCR_Read(tpm->context, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &wanted, NULL, &found, &values)))
        return 0;
    /* One reply has at most eight of them, so any of them shows the bank. */
    int has_some = values->count > 0 && found->count == 1 && found->pcrSelections[0].hash == TPM2_ALG_SHA256;
    Esys_Free(found);
    Esys_Free(values);
    return has_some ? 1 : fail(tpm, PFS_NO_BANK, 0);
}

/* Whether the TPM resets its count of wrong PINs without a password. It is for a warning, which a failure leaves out. */
static enum pfs_count count_of_pins(struct tpm *tpm) {
    TPMS_CAPABILITY_DATA *found = NULL;
    if (Esys_GetCapability(tpm->context, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, TPM2_CAP_TPM_PROPERTIES, TPM2_PT_PERMANENT,
                           1, NULL, &found) != TSS2_RC_SUCCESS)
        return PFS_COUNT_KEPT;
    const TPML_TAGGED_TPM_PROPERTY *all = &found->data.tpmProperties;
    int is_open = all->count == 1 && all->tpmProperty[0].property == TPM2_PT_PERMANENT &&
                  (all->tpmProperty[0].value & TPMA_PERMANENT_LOCKOUTAUTHSET) == 0;
    Esys_Free(found);
    return is_open ? PFS_COUNT_OPEN : PFS_COUNT_KEPT;
}

static int seal(struct tpm *tpm) {
    struct pfs_request *request = tpm->request;
    TPM2B_DIGEST *digest = NULL;
    TPM2B_DATA outside = {0};
    TPML_PCR_SELECTION pcrs = {0};
    TPM2B_PUBLIC *public_part = NULL;
    TPM2B_PRIVATE *private_part = NULL;
    if (!choose_parent(tpm) || !has_pcrs(tpm) || !begin(tpm, TPM2_SE_HMAC, TPMA_SESSION_AUDIT, &tpm->session) ||
        !begin(tpm, TPM2_SE_TRIAL, 0, &tpm->policy) || !apply_policy(tpm) ||
        !well(tpm, Esys_PolicyGetDigest(tpm->context, tpm->policy, tpm->session, ESYS_TR_NONE, ESYS_TR_NONE, &digest)))
        return 0;
    TPM2B_PUBLIC template = {.publicArea = {
        .type = TPM2_ALG_KEYEDHASH, .nameAlg = TPM2_ALG_SHA256,
        .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | (request->has_pin ? 0 : TPMA_OBJECT_NODA),
        .authPolicy = *digest, .parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL}};
    Esys_Free(digest);
    TPM2B_SENSITIVE_CREATE sensitive = {.sensitive.data.size = PFS_SECRET};
    memcpy(sensitive.sensitive.data.buffer, request->secret, PFS_SECRET);
    if (request->has_pin) {
        sensitive.sensitive.userAuth.size = PFS_SECRET;
        memcpy(sensitive.sensitive.userAuth.buffer, request->auth, PFS_SECRET);
    }
    int is_done =
        encrypt(tpm, TPMA_SESSION_DECRYPT) &&
        well(tpm, Esys_Create(tpm->context, tpm->parent, tpm->session, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template,
                              &outside, &pcrs, &private_part, &public_part, NULL, NULL, NULL));
    explicit_bzero(&sensitive, sizeof sensitive);
    if (!is_done) return 0;
    size_t public_length = 0, private_length = 0;
    is_done = well(tpm, Tss2_MU_TPM2B_PUBLIC_Marshal(public_part, request->public_part.bytes, PFS_LARGEST_BLOB,
                                                     &public_length)) &&
              well(tpm, Tss2_MU_TPM2B_PRIVATE_Marshal(private_part, request->private_part.bytes, PFS_LARGEST_BLOB,
                                                      &private_length));
    request->public_part.length = (uint16_t)public_length;
    request->private_part.length = (uint16_t)private_length;
    Esys_Free(public_part);
    Esys_Free(private_part);
    if (is_done && request->has_pin) request->number = count_of_pins(tpm);
    return is_done;
}

static int load(struct tpm *tpm) {
    struct pfs_request *request = tpm->request;
    TPM2B_PUBLIC public_part = {0};
    TPM2B_PRIVATE private_part = {0};
    size_t public_length = 0, private_length = 0;
    if (Tss2_MU_TPM2B_PUBLIC_Unmarshal(request->public_part.bytes, request->public_part.length, &public_length,
                                       &public_part) != TSS2_RC_SUCCESS ||
        Tss2_MU_TPM2B_PRIVATE_Unmarshal(request->private_part.bytes, request->private_part.length, &private_length,
                                        &private_part) != TSS2_RC_SUCCESS ||
        public_length != request->public_part.length || private_length != request->private_part.length ||
        public_part.publicArea.type != TPM2_ALG_KEYEDHASH)
        return fail(tpm, PFS_DAMAGED, 0);
    TSS2_RC code = Esys_Load(tpm->context, tpm->parent, tpm->session, ESYS_TR_NONE, ESYS_TR_NONE, &private_part,
                             &public_part, &tpm->object);
    if (code == TSS2_RC_SUCCESS) return 1;
    tpm->object = ESYS_TR_NONE;
    /* Its errors about the values that it was given. */
    return code & TPM2_RC_FMT1 && kind(code) != 0 ? fail(tpm, PFS_DAMAGED, code) : well(tpm, code);
}

static int unseal(struct tpm *tpm) {
    struct pfs_request *request = tpm->request;
    TPM2B_SENSITIVE_DATA *data = NULL;
    if (!find_parent(tpm) || !begin(tpm, TPM2_SE_HMAC, TPMA_SESSION_ENCRYPT | TPMA_SESSION_DECRYPT, &tpm->session) ||
        !load(tpm))
        return 0;
    if (request->has_pin) {
        TPM2B_AUTH auth = {.size = PFS_SECRET};
        memcpy(auth.buffer, request->auth, PFS_SECRET);
        int is_set = well(tpm, Esys_TR_SetAuth(tpm->context, tpm->object, &auth));
        explicit_bzero(&auth, sizeof auth);
        if (!is_set) return 0;
    }
    if (!begin(tpm, TPM2_SE_POLICY, 0, &tpm->policy) || !apply_policy(tpm) || !encrypt(tpm, 0)) return 0;
    TSS2_RC code = Esys_Unseal(tpm->context, tpm->object, tpm->policy, tpm->session, ESYS_TR_NONE, &data);
    if (code != TSS2_RC_SUCCESS) {
        switch (kind(code)) {
        case TPM2_RC_AUTH_FAIL:
        case TPM2_RC_BAD_AUTH: return fail(tpm, PFS_WRONG_PIN, code);
        case TPM2_RC_POLICY_FAIL:
        case TPM2_RC_PCR_CHANGED:
        case TPM2_RC_VALUE: return fail(tpm, PFS_OTHER_STATE, code);
        default: return well(tpm, code);
        }
    }
    int fits = data->size == PFS_SECRET;
    if (fits) memcpy(request->secret, data->buffer, PFS_SECRET);
    explicit_bzero(data, sizeof *data);
    Esys_Free(data);
    return fits ? 1 : fail(tpm, PFS_DAMAGED, 0);
}

/* A TPM without a resource manager keeps what is not flushed. */
static void flush(struct tpm *tpm) {
    for (int index = 0; index < 3; index++) {
        ESYS_TR one = index == 0 ? tpm->policy : index == 1 ? tpm->session : tpm->object;
        if (one != ESYS_TR_NONE) Esys_FlushContext(tpm->context, one);
    }
    if (tpm->parent != ESYS_TR_NONE && tpm->has_made_parent) Esys_FlushContext(tpm->context, tpm->parent);
}

/* The errno of a device that cannot be opened, which the libraries do not tell; 0 if it can be. */
static uint32_t error_of(const char *tcti) {
    static const char prefix[] = "device:";
    if (strncmp(tcti, prefix, sizeof prefix - 1) != 0) return 0;
    int file = open(tcti + sizeof prefix - 1, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0) return (uint32_t)errno;
    close(file);
    return 0;
}

void pfs_run_request(struct pfs_request *request, const char *tcti) {
    TSS2_TCTI_CONTEXT *connection = NULL;
    struct tpm tpm = {request, NULL, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, 0};
    uint32_t number = error_of(tcti);
    if (number != 0 || Tss2_TctiLdr_Initialize(tcti, &connection) != TSS2_RC_SUCCESS) {
        fail(&tpm, PFS_NO_DEVICE, number);
        return;
    }
    if (well(&tpm, Esys_Initialize(&tpm.context, connection, NULL))) {
        if (request->action == PFS_SEAL ? seal(&tpm) : unseal(&tpm)) request->status = PFS_DONE;
        flush(&tpm);
        Esys_Finalize(&tpm.context);
    }
    Tss2_TctiLdr_Finalize(&connection);
}
