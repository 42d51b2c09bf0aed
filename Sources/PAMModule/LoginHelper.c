/*
 * The login helper: runs protectfs as the user who logs in or out, for each volume whose settings have LOGIN=yes.
 *
 * Usage: login-helper unlock|lock|change PROGRAM, started by the PAM module (Launch.h says with which descriptors).
 * It works on all volumes at the same time, so that one that hangs does not hold up the others.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "Launch.h"
#include "LoginSettings.h"
#include "RunProgram.h"
#include "Token.h"

enum { most_volumes = 32 };
/* The exit codes of protectfs(1) that mean something here. */
enum { code_done = 0, code_authentication = 3, code_not_mounted = 7, code_sweeping = 10 };

static struct pfs_token *token, *new_token;
static const char *program;

static int read_whole(void *place, size_t length) {
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(STDIN_FILENO, (char *)place + done, length - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        done += (size_t)got;
    }
    return 1;
}

static struct pfs_token *read_token(uint32_t length) {
    struct pfs_token *made;
    if (length == 0 || length > PFS_LONGEST_TOKEN || (made = pfs_token_new()) == NULL) return NULL;
    made->length = length;
    if (read_whole(made->bytes, length) && pfs_token_is_usable(made->bytes, length)) return made;
    pfs_token_free(made);
    return NULL;
}

static int unlock(const struct pfs_settings *settings) {
    const char *const words[] = {program, "unlock", "--passphrase-file=-", "--", settings->mount_point, NULL};
    return pfs_run(words, token, NULL);
}

/* Mounts without the user's service manager. */
static int mount_directly(struct pfs_settings *settings) {
    const char *words[PFS_MOST_OPTIONS + 8] = {program, "mount", "--passphrase-file=-"};
    size_t count = 3;
    for (size_t index = 0; index < settings->option_count; index++)
        if (strcmp(settings->options[index], "--no-unlock") != 0) words[count++] = settings->options[index];
    words[count++] = "--";
    words[count++] = settings->volume;
    words[count++] = settings->mount_point;
    words[count] = NULL;
    return pfs_run(words, token, NULL);
}

/* With a service manager the unit mounts, because it also ends the mount when the manager ends. */
static int mount_or_unlock(struct pfs_settings *settings) {
    int code = unlock(settings);
    if (code != code_not_mounted) return code;
    const char *const asks[] = {"/usr/bin/systemctl", "--user", "--quiet", "is-active", "--", "basic.target", NULL};
    if (!settings->has_no_unlock || pfs_run(asks, NULL, NULL) != 0) return mount_directly(settings);
    char unit[PFS_LONGEST_SETTINGS_NAME + 32];
    const char *const words[] = {"/usr/bin/systemctl", "--user", "start", "--", unit, NULL};
    snprintf(unit, sizeof unit, "protectfs@%s.service", settings->name);
    code = pfs_run(words, NULL, NULL);
    return code == 0 ? unlock(settings) : code;
}

static int lock(const struct pfs_settings *settings) {
    const char *const lock_words[] = {program, "lock", "--grace=2", "--", settings->mount_point, NULL};
    const char *const unmount_words[] = {program, "unmount", "--grace=5", "--", settings->mount_point, NULL};
    if (settings->at_logout == PFS_KEEP) return code_done;
    int code = pfs_run(settings->at_logout == PFS_UNMOUNT ? unmount_words : lock_words, NULL, NULL);
    /* Not mounted: there is no key. Sweeping: the keys are gone, and the daemon continues. */
    return code == code_not_mounted || code == code_sweeping ? code_done : code;
}

static int change(const struct pfs_settings *settings) {
    const char *const words[] = {program, "passphrase", "change", "--weak-passphrase", "--passphrase-file=-",
                                 "--new-passphrase-file=" PFS_SECOND_INPUT, "--", settings->volume, NULL};
    return settings->follows_password ? pfs_run(words, token, new_token) : code_done;
}

/* One volume, in a process of its own. The log gets the name of its settings, and no path. */
static void work(const char *action, struct pfs_settings *settings) {
    int code;
    if ((token != NULL && pfs_token_lock(token) != 0) || (new_token != NULL && pfs_token_lock(new_token) != 0)) {
        syslog(LOG_WARNING, "%s of %s: no locked memory for the password", action, settings->name);
        return;
    }
    if (strcmp(action, "unlock") == 0) code = mount_or_unlock(settings);
    else if (strcmp(action, "lock") == 0) code = lock(settings);
    else code = change(settings);
    if (code == code_done) return;
    if (code == code_authentication && strcmp(action, "unlock") == 0)
        syslog(LOG_WARNING, "unlock of %s: the password of the login is not its passphrase; use protectfs unlock",
               settings->name);
    else if (code == code_authentication)
        syslog(LOG_WARNING, "change of %s: the old password is not its passphrase, which stays as it is", settings->name);
    else if (code == PFS_NO_ANSWER)
        syslog(LOG_WARNING, "%s of %s: no answer in %d s; given up", action, settings->name, PFS_LONGEST_RUN);
    else
        syslog(LOG_WARNING, "%s of %s: failed with exit code %d", action, settings->name, code);
}

static void work_on_all(const char *action, const char *home) {
    char path[4400];
    struct dirent *entry;
    int count = 0;
    DIR *directory;
    snprintf(path, sizeof path, "%s/.config/protectfs", home);
    directory = opendir(path);
    if (directory == NULL) return;
    while ((entry = readdir(directory)) != NULL) {
        static struct pfs_settings settings;
        const char *mistake = pfs_settings_read(&settings, dirfd(directory), entry->d_name);
        if (mistake != NULL) syslog(LOG_WARNING, "%s of %s: %s", action, settings.name, mistake);
        if (mistake != NULL || !settings.is_for_login) continue;
        if (count++ == most_volumes) {
            syslog(LOG_WARNING, "%s: more than %d volumes; the others are left out", action, most_volumes);
            break;
        }
        pid_t child = fork();
        if (child < 0) syslog(LOG_WARNING, "%s of %s: %m", action, settings.name);
        if (child != 0) continue;
        work(action, &settings);
        pfs_token_free(token);
        pfs_token_free(new_token);
        _exit(0);
    }
    closedir(directory);
}

int main(int count, char **words) {
    struct pfs_handover lengths = {0, 0};
    const char *home = getenv("HOME");
    if (count != 3 || words[2][0] != '/' || home == NULL) return 2;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* Held until the end, and not inherited by what is run. */
    for (int kept = PFS_ORDER; kept <= PFS_DONE; kept++) {
        if (fcntl(kept, F_DUPFD_CLOEXEC, 16) < 0) return 2;
        close(kept);
    }
    openlog("pam_protectfs", LOG_PID, LOG_AUTHPRIV);
    program = words[2];
    if (strcmp(words[1], "lock") != 0) {
        if (!read_whole(&lengths, sizeof lengths)) return 2;
        token = read_token(lengths.length);
        if (strcmp(words[1], "change") == 0) new_token = read_token(lengths.new_length);
        if (token == NULL || (strcmp(words[1], "change") == 0 && new_token == NULL)) {
            syslog(LOG_WARNING, "%s: no password, or no locked memory for it", words[1]);
            return 1;
        }
    }
    work_on_all(words[1], home);
    pfs_token_free(token);
    pfs_token_free(new_token);
    while (wait(NULL) > 0 || errno == EINTR) {
    }
    return 0;
}
