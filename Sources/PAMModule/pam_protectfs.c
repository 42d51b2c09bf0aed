/*
 * The PAM module: takes the password that a login has verified, and has the login helper unlock the user's volumes with it, lock
 * them after the last logout, and give them a changed password.
 *
 * It never decides about a login: its answer is always PAM_IGNORE. Only its login helper reads files of the user, and runs
 * as the user.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <security/pam_modutil.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "Launch.h"
#include "Sessions.h"
#include "Token.h"

#define ENTRY __attribute__((visibility("default")))

static const char token_name[] = "protectfs-token";
static const char session_name[] = "protectfs-session";

/* What opens sessions without being a login: jobs, the user's service manager, and commands for another user. */
static const char *const other_services[] = {"sudo", "sudo-i", "cron", "crond", "atd", "systemd-user", "runuser", "runuser-l"};
/* Without a password these were called by root. */
static const char *const switching_services[] = {"su", "su-l"};

struct call {
    pam_handle_t *handle;
    const char *service;
    const struct passwd *account;
    const char *helper, *program;
    unsigned limit;
    /* Names divided by commas; NULL for all but other_services. */
    const char *services;
};

/* Whether a list has a word; a comma or the end follows each word. */
static int lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (; list != NULL; list = strchr(list, ',')) {
        if (*list == ',') list++;
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == 0)) return 1;
    }
    return 0;
}

static int is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t index = 0; index < count; index++)
        if (strcmp(word, words[index]) == 0) return 1;
    return 0;
}

/* The text behind the equals sign, if the option has this name. */
static const char *value_of(const char *option, const char *name) {
    size_t length = strlen(name);
    return strncmp(option, name, length) == 0 && option[length] == '=' ? option + length + 1 : NULL;
}

static void read_option(struct call *call, const char *option) {
    const char *value;
    if ((value = value_of(option, "timeout")) != NULL) {
        char *end;
        unsigned long seconds = strtoul(value, &end, 10);
        if (*value >= '0' && *value <= '9' && *end == 0 && seconds <= 60) {
            call->limit = (unsigned)seconds;
            return;
        }
    } else if ((value = value_of(option, "services")) != NULL) {
        call->services = value;
        return;
    } else if ((value = value_of(option, "program")) != NULL && *value == '/') {
        call->program = value;
        return;
    } else if ((value = value_of(option, "helper")) != NULL && *value == '/') {
        call->helper = value;
        return;
    }
    pam_syslog(call->handle, LOG_ERR, "invalid option \"%s\"; use timeout=0 to 60, services=, program=/ or helper=/", option);
}

/* Reads options and account. Returns 0 if this call is not for the module. */
static int begin(struct call *call, pam_handle_t *handle, int count, const char **options) {
    const char *user = NULL;
    const void *service = NULL;
    memset(call, 0, sizeof *call);
    call->handle = handle;
    call->helper = PFS_HELPER;
    call->program = PFS_PROGRAM;
    call->limit = 5;
    /* A screen locker without privileges can become no user and count no session. */
    if (geteuid() != 0) return 0;
    for (int index = 0; index < count; index++) read_option(call, options[index]);
    if (pam_get_item(handle, PAM_SERVICE, &service) != PAM_SUCCESS || service == NULL) return 0;
    call->service = service;
    if (call->services != NULL) {
        if (!lists(call->services, call->service)) return 0;
    } else if (is_one_of(call->service, other_services, sizeof other_services / sizeof *other_services)) {
        return 0;
    }
    if (pam_get_user(handle, &user, NULL) != PAM_SUCCESS || user == NULL || strlen(user) >= PFS_LONGEST_NAME) return 0;
    call->account = pam_modutil_getpwnam(handle, user);
    /* A name service may give another name than the one that was asked for. */
    if (call->account != NULL && strlen(call->account->pw_name) >= PFS_LONGEST_NAME) return 0;
    /* Root's volumes are mounted by the system. */
    if (call->account == NULL || call->account->pw_uid == 0) return 0;
    return call->account->pw_dir != NULL && call->account->pw_dir[0] == '/' && strlen(call->account->pw_dir) < PATH_MAX;
}

static void free_token(pam_handle_t *handle, void *data, int status) {
    (void)handle, (void)status;
    pfs_token_free(data);
}

/* A session that is never closed no longer counts when its process has ended. */
static void free_session(pam_handle_t *handle, void *data, int status) {
    (void)handle, (void)status;
    free(data);
}

/* Copies a password of PAM into guarded memory. Returns NULL if there is none that can be used. */
static struct pfs_token *copy_item(const struct call *call, int item) {
    const void *text = NULL;
    struct pfs_token *token;
    size_t length;
    if (pam_get_item(call->handle, item, &text) != PAM_SUCCESS || text == NULL) return NULL;
    length = strnlen(text, PFS_LONGEST_TOKEN + 1);
    if (length == 0) return NULL;
    if (!pfs_token_is_usable(text, length)) {
        pam_syslog(call->handle, LOG_WARNING, "the password cannot be a passphrase: it is too long, or has a line end");
        return NULL;
    }
    token = pfs_token_new();
    /* Children of the login program, which last as long as the session, get no copy. */
    if (token != NULL && pfs_token_leave_out_of_children(token) != 0) {
        pfs_token_free(token);
        token = NULL;
    }
    if (token == NULL) {
        pam_syslog(call->handle, LOG_WARNING, "no locked memory for the password: %m");
        return NULL;
    }
    token->length = length;
    memcpy(token->bytes, text, length);
    strcpy(token->user, call->account->pw_name);
    return token;
}

/* Keeps a token for the session; the one before it is wiped. */
static void keep(const struct call *call, struct pfs_token *token) {
    if (pam_set_data(call->handle, token_name, token, free_token) != PAM_SUCCESS) pfs_token_free(token);
}

/* The token of this user. sudo and its like authenticate one user and open the session of another. */
static struct pfs_token *kept_token(const struct call *call) {
    const void *data = NULL;
    if (pam_get_data(call->handle, token_name, &data) != PAM_SUCCESS || data == NULL) return NULL;
    struct pfs_token *token = (struct pfs_token *)data;
    return strcmp(token->user, call->account->pw_name) == 0 ? token : NULL;
}

/* All groups of the user, looked up here: the child of a fork must not do it. The caller frees them. */
static gid_t *groups_of(const struct passwd *account, size_t *count) {
    int size = 64;
    for (;;) {
        int found = size;
        gid_t *groups = calloc((size_t)size, sizeof *groups);
        if (groups == NULL) return NULL;
        if (getgrouplist(account->pw_name, account->pw_gid, groups, &found) >= 0) {
            *count = (size_t)found;
            return groups;
        }
        free(groups);
        if (size >= NGROUPS_MAX) return NULL;
        size = found > size && found <= NGROUPS_MAX ? found : NGROUPS_MAX;
    }
}

static void launch(const struct call *call, const char *action, const struct pfs_token *token, const struct pfs_token *new) {
    struct pfs_launch launch = {
        .helper = call->helper,
        .program = call->program,
        .action = action,
        .user = call->account->pw_name,
        .home = call->account->pw_dir,
        .uid = call->account->pw_uid,
        .gid = call->account->pw_gid,
        .token = token,
        .new_token = new,
        .limit = call->limit,
    };
    gid_t *groups = groups_of(call->account, &launch.group_count);
    if (groups == NULL) {
        pam_syslog(call->handle, LOG_WARNING, "%s: cannot look up the groups of the user", action);
        return;
    }
    launch.groups = groups;
    switch (pfs_launch(&launch)) {
    case PFS_ENDED: break;
    case PFS_CONTINUES:
        pam_syslog(call->handle, LOG_NOTICE, "%s: not done after %u s; it continues in the background", action, call->limit);
        break;
    case PFS_NOT_STARTED: pam_syslog(call->handle, LOG_WARNING, "%s: cannot run %s: %m", action, call->helper); break;
    }
    free(groups);
}

ENTRY int pam_sm_authenticate(pam_handle_t *handle, int flags, int count, const char **options) {
    struct call call;
    struct pfs_token *token;
    (void)flags;
    if (begin(&call, handle, count, options) && (token = copy_item(&call, PAM_AUTHTOK)) != NULL) keep(&call, token);
    return PAM_IGNORE;
}

ENTRY int pam_sm_setcred(pam_handle_t *handle, int flags, int count, const char **options) {
    (void)handle, (void)flags, (void)count, (void)options;
    return PAM_IGNORE;
}

ENTRY int pam_sm_open_session(pam_handle_t *handle, int flags, int count, const char **options) {
    struct call call;
    struct pfs_session *session;
    const void *data = NULL;
    int failure;
    (void)flags;
    if (!begin(&call, handle, count, options)) return PAM_IGNORE;
    /* Named twice in a configuration. */
    if (pam_get_data(handle, session_name, &data) == PAM_SUCCESS && data != NULL) return PAM_IGNORE;
    struct pfs_token *token = kept_token(&call);
    if (token == NULL && is_one_of(call.service, switching_services, sizeof switching_services / sizeof *switching_services))
        return PAM_IGNORE;
    session = calloc(1, sizeof *session);
    failure = session == NULL ? -ENOMEM : pfs_sessions_add(call.account->pw_uid, session);
    if (failure != 0) {
        errno = -failure;
        pam_syslog(handle, LOG_WARNING, "cannot count this session, so it unlocks nothing: %m");
        free(session);
    } else if (pam_set_data(handle, session_name, session, free_session) != PAM_SUCCESS) {
        failure = -ENOMEM;
        pfs_sessions_remove(call.account->pw_uid, session);
        free(session);
    }
    /* The end of a session that is not counted would lock nothing. */
    if (failure == 0 && token != NULL) launch(&call, "unlock", token, NULL);
    pam_set_data(handle, token_name, NULL, NULL);
    return PAM_IGNORE;
}

ENTRY int pam_sm_close_session(pam_handle_t *handle, int flags, int count, const char **options) {
    struct call call;
    const void *data = NULL;
    int left;
    (void)flags;
    if (!begin(&call, handle, count, options)) return PAM_IGNORE;
    if (pam_get_data(handle, session_name, &data) != PAM_SUCCESS || data == NULL) return PAM_IGNORE;
    left = pfs_sessions_remove(call.account->pw_uid, data);
    pam_set_data(handle, session_name, NULL, NULL);
    if (left < 0) {
        errno = -left;
        pam_syslog(handle, LOG_WARNING, "cannot count sessions, so this end locks nothing: %m");
    }
    if (left == 0) launch(&call, "lock", NULL, NULL);
    return PAM_IGNORE;
}

ENTRY int pam_sm_chauthtok(pam_handle_t *handle, int flags, int count, const char **options) {
    struct call call;
    struct pfs_token *old, *new;
    if ((flags & PAM_UPDATE_AUTHTOK) == 0 || !begin(&call, handle, count, options)) return PAM_IGNORE;
    new = copy_item(&call, PAM_AUTHTOK);
    old = copy_item(&call, PAM_OLDAUTHTOK);
    if (new != NULL && old == NULL)
        pam_syslog(handle, LOG_NOTICE, "the old password is not known, so the volumes keep their passphrases");
    if (new != NULL && old != NULL) launch(&call, "change", old, new);
    pfs_token_free(old);
    /* A login whose password has expired changes it before it opens the session. */
    if (new != NULL && kept_token(&call) != NULL) keep(&call, new);
    else pfs_token_free(new);
    return PAM_IGNORE;
}
