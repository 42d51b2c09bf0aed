/*
 * Reads a request from standard input and writes its reply to standard output.
 */
#include "Request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int take(void *place, size_t length) {
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(STDIN_FILENO, (char *)place + done, length - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        done += (size_t)got;
    }
    return 1;
}

static int give(const void *bytes, size_t length) {
    size_t done = 0;
    while (done < length) {
        ssize_t put = write(STDOUT_FILENO, (const char *)bytes + done, length - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return 0;
        done += (size_t)put;
    }
    return 1;
}

static int take_number(uint32_t *number, size_t length) {
    uint8_t bytes[4] = {0};
    if (!take(bytes, length)) return 0;
    *number = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    return 1;
}

static int give_number(uint32_t number, size_t length) {
    uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16), (uint8_t)(number >> 24)};
    return give(bytes, length);
}

static int take_blob(struct pfs_blob *blob) {
    uint32_t length;
    if (!take_number(&length, 2) || length == 0 || length > PFS_LARGEST_BLOB) return 0;
    blob->length = (uint16_t)length;
    return take(blob->bytes, length);
}

static int give_blob(const struct pfs_blob *blob) {
    return give_number(blob->length, 2) && give(blob->bytes, blob->length);
}

int pfs_read_request(struct pfs_request *request) {
    if (!take(&request->action, 1) || !take(&request->has_pin, 1) || request->has_pin > 1) return 0;
    if (!take_number(&request->pcrs, 4) || request->pcrs >> 24 != 0 || !take(request->auth, PFS_SECRET)) return 0;
    switch (request->action) {
    case PFS_SEAL: return take(request->secret, PFS_SECRET);
    case PFS_UNSEAL:
        return take(request->name, PFS_NAME) && take_blob(&request->public_part) && take_blob(&request->private_part);
    default: return 0;
    }
}

int pfs_write_reply(const struct pfs_request *request) {
    if (!give(&request->status, 1) || !give_number(request->number, 4)) return 0;
    if (request->status != PFS_DONE) return 1;
    if (request->action == PFS_UNSEAL) return give(request->secret, PFS_SECRET);
    return give(request->name, PFS_NAME) && give_blob(&request->public_part) && give_blob(&request->private_part);
}
