/*
 * The login helper: runs protectfs as the user who logs in or out, for each volume whose settings have LOGIN=yes.
 *
 * Usage: login-helper unlock|lock|change PROGRAM, started by the PAM module (Launch.h says with which descriptors).
 * It works on all volumes at the same time, so that one that hangs does not hold up the others. The next login or logout of the
 * user waits until all of it is done, or for PFS_LONGEST_TURN. From then on it waits only for the volumes that still have work.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "Launch.h"
#include "LoginSettings.h"
#include "RunProgram.h"
#include "Token.h"

/* So many settings are read, each in a process of its own. */
enum { most_volumes = 64 };
/* The exit codes of protectfs(1) that mean something here. */
enum { code_done = 0, code_authentication = 3, code_not_mounted = 7, code_sweeping = 10 };

static struct pfs_token *token, *new_token;
static const char *program;
/* The file that orders logins and logouts. */
static int order;

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

/* Each volume has two bytes in the file: one process works on it, and one is the next. */
enum place { WORKING, NEXT };

/* Takes or gives back a place at a volume. Returns 0 if another process has it. The end of this process gives it back, too. */
static int set_place(const char *name, enum place place, short kind) {
    struct flock range;
    uint32_t hash = 2166136261U;
    memset(&range, 0, sizeof range);
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_len = 1;
    /* FNV-1a. Two volumes with the same number wait for each other, as if they were one. */
    for (; *name != 0; name++) hash = (hash ^ (unsigned char)*name) * 16777619U;
    range.l_start = (off_t)(hash >> 2) * 2 + (off_t)place;
    return fcntl(order, F_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
}

static int take(const char *name, enum place place) { return set_place(name, place, F_WRLCK); }

/* Waits for a place. Returns 0 if it stays taken for longer than the work of any two processes should last. */
static int await_place(const char *name, enum place place) {
    const struct timespec pause = {0, 50 * 1000 * 1000};
    for (int round = 0; round < 3; round++) {
        pfs_begin_time();
        while (!pfs_is_time_over()) {
            if (take(name, place)) return 1;
            nanosleep(&pause, NULL);
        }
    }
    return 0;
}

/*
 * Reads the settings; they may be on a file system that does not answer. What comes in too late is given up, as nobody waits for
 * it any more, but not a lock. Returns 0 if there is nothing to do.
 */
static int read_settings(struct pfs_settings *settings, const char *action, int directory, const char *entry) {
    if (strcmp(action, "lock") != 0) alarm(PFS_LONGEST_RUN);
    const char *mistake = pfs_settings_read(settings, directory, entry);
    alarm(0);
    if (mistake != NULL) syslog(LOG_WARNING, "%s of %s: %s", action, settings->name, mistake);
    return mistake == NULL && settings->is_for_login;
}

/*
 * Takes the turn of a volume, after those who came before. An unlock waits as the next one, or is left out: so no unlock overtakes
 * a lock that came later. A lock is done at once, and again when the others are done, because their work may unlock the volume.
 * The descriptor is closed as soon as the place in the order is fixed, which is before anything that may hang, such as the settings.
 * Returns 0 if there is no turn, or nothing to do.
 */
static int take_turn(struct pfs_settings *settings, const char *action, int directory, const char *entry, int asking) {
    const char *name = settings->name;
    int is_lock = strcmp(action, "lock") == 0, is_next = take(name, NEXT), is_working = is_next && take(name, WORKING);
    close(asking);
    if (!read_settings(settings, action, directory, entry)) return 0;
    if (!is_working && is_lock) {
        pfs_begin_time();
        lock(settings);
    }
    if (!is_next && is_lock) is_next = await_place(name, NEXT);
    if (is_next && !is_working) is_working = await_place(name, WORKING);
    if (is_next) set_place(name, NEXT, F_UNLCK);
    if (!is_working)
        syslog(LOG_WARNING, "%s of %s: left out, because those before it have not ended", action, settings->name);
    return is_working;
}

/* One volume, in a process of its own. The log gets the name of its settings, and no path. */
static void work(const char *action, struct pfs_settings *settings, int directory, const char *entry, int asking) {
    int code;
    if (!take_turn(settings, action, directory, entry, asking)) return;
    pfs_begin_time();
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

static void work_on_all(const char *action, const char *home, int asking) {
    char path[4400];
    struct dirent *entry;
    int count = 0;
    DIR *directory;
    snprintf(path, sizeof path, "%s/.config/protectfs", home);
    directory = opendir(path);
    if (directory == NULL) return;
    while ((entry = readdir(directory)) != NULL) {
        static struct pfs_settings settings;
        if (!pfs_settings_take_name(&settings, entry->d_name)) continue;
        if (count++ == most_volumes) {
            syslog(LOG_WARNING, "%s: more than %d settings; the others are left out", action, most_volumes);
            break;
        }
        pid_t child = fork();
        if (child < 0) syslog(LOG_WARNING, "%s of %s: %m", action, settings.name);
        if (child != 0) continue;
        work(action, &settings, dirfd(directory), entry->d_name, asking);
        pfs_token_free(token);
        pfs_token_free(new_token);
        _exit(0);
    }
    closedir(directory);
}

/* Waits until nobody has the writing end of a pipe any more, or the time is up. */
static void await_end(int pipe, int milliseconds) {
    struct pollfd source = {pipe, POLLIN, 0};
    while (poll(&source, 1, milliseconds) < 0 && errno == EINTR) {
    }
}

int main(int count, char **words) {
    struct pfs_handover lengths = {0, 0};
    /* The writing ends: of those that have not asked for their volume's turn, and of those that work. */
    int asked[2], done[2], status;
    pid_t child;
    const char *home = getenv("HOME");
    if (count != 3 || words[2][0] != '/' || home == NULL) return 2;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* Held until the end, and not inherited by what is run. */
    for (int kept = PFS_ORDER; kept <= PFS_DONE; kept++) {
        int copy = fcntl(kept, F_DUPFD_CLOEXEC, 16);
        if (copy < 0) return 2;
        if (kept == PFS_ORDER) order = copy;
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
    if (pipe2(asked, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) return 2;
    work_on_all(words[1], home, asked[1]);
    pfs_token_free(token);
    pfs_token_free(new_token);
    close(asked[1]);
    close(done[1]);
    await_end(asked[0], PFS_LONGEST_TURN * 1000);
    await_end(done[0], PFS_LONGEST_TURN * 1000);
    flock(order, LOCK_UN);
    errno = 0;
    while ((child = wait(&status)) > 0 || errno == EINTR)
        if (child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            syslog(LOG_WARNING, "%s: settings did not answer in %d s; given up", words[1], PFS_LONGEST_RUN);
    return 0;
}
