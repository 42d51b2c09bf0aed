/*
 * Reads the settings of a volume, which the user writes: strange files and long ones are refused.
 */
#define _GNU_SOURCE
#include "LoginSettings.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char blanks[] = " \t\r";

int pfs_settings_take_name(struct pfs_settings *settings, const char *entry) {
    static const char end[] = ".conf";
    size_t length = strlen(entry);
    if (length < sizeof end || length - (sizeof end - 1) > PFS_LONGEST_SETTINGS_NAME) return 0;
    length -= sizeof end - 1;
    if (strcmp(entry + length, end) != 0 || entry[0] == '.') return 0;
    memcpy(settings->name, entry, length);
    settings->name[length] = 0;
    return strspn(settings->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == length;
}

/* Reads the text of a regular file of the user or root that nobody else can change. A pipe or a device is not waited for. */
static const char *read_text(struct pfs_settings *settings, int directory, const char *entry) {
    struct stat found;
    ssize_t length;
    int file = openat(directory, entry, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return "its settings cannot be read";
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(file);
        return "its settings are not a regular file";
    }
    if ((found.st_uid != getuid() && found.st_uid != 0) || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        close(file);
        return "others can change its settings; use chmod go-w";
    }
    length = read(file, settings->text, PFS_LONGEST_SETTINGS + 1);
    close(file);
    if (length < 0) return "its settings cannot be read";
    if (length > PFS_LONGEST_SETTINGS) return "its settings are too long";
    if (memchr(settings->text, 0, (size_t)length) != NULL) return "its settings have a zero byte";
    settings->text[length] = 0;
    return NULL;
}

/* Removes blanks around a value, and one pair of quotes, as systemd does. Returns NULL for what only systemd understands. */
static char *plain(char *value) {
    value += strspn(value, blanks);
    size_t length = strlen(value);
    while (length > 0 && strchr(blanks, value[length - 1]) != NULL) value[--length] = 0;
    if (length >= 2 && (value[0] == '"' || value[0] == '\'') && value[length - 1] == value[0]) {
        value[length - 1] = 0;
        value++;
    }
    return strpbrk(value, "\\\"'") == NULL ? value : NULL;
}

static const char *yes_or_no(const char *value, int *is_set) {
    *is_set = strcmp(value, "yes") == 0;
    return *is_set || strcmp(value, "no") == 0 ? NULL : "LOGIN and FOLLOW_PASSWORD are yes or no";
}

static const char *take(struct pfs_settings *settings, const char *key, char *value) {
    if (strcmp(key, "VOLUME") == 0) {
        settings->volume = value;
    } else if (strcmp(key, "MOUNTPOINT") == 0) {
        settings->mount_point = value;
    } else if (strcmp(key, "LOGIN") == 0) {
        return yes_or_no(value, &settings->is_for_login);
    } else if (strcmp(key, "FOLLOW_PASSWORD") == 0) {
        return yes_or_no(value, &settings->follows_password);
    } else if (strcmp(key, "LOGOUT") == 0) {
        if (strcmp(value, "lock") == 0) settings->at_logout = PFS_LOCK;
        else if (strcmp(value, "unmount") == 0) settings->at_logout = PFS_UNMOUNT;
        else if (strcmp(value, "keep") == 0) settings->at_logout = PFS_KEEP;
        else return "LOGOUT is lock, unmount or keep";
    } else if (strcmp(key, "OPTIONS") == 0) {
        char *rest = value, *word;
        settings->option_count = 0;
        settings->has_no_unlock = 0;
        while ((word = strtok_r(NULL, blanks, &rest)) != NULL) {
            if (settings->option_count == PFS_MOST_OPTIONS) return "OPTIONS has too many words";
            if (strcmp(word, "--no-unlock") == 0) settings->has_no_unlock = 1;
            settings->options[settings->option_count++] = word;
        }
    }
    return NULL;
}

const char *pfs_settings_read(struct pfs_settings *settings, int directory, const char *entry) {
    const char *mistake;
    char *rest, *line;
    memset(settings, 0, offsetof(struct pfs_settings, text));
    if (!pfs_settings_take_name(settings, entry)) return NULL;
    mistake = read_text(settings, directory, entry);
    if (mistake != NULL) return mistake;
    rest = settings->text;
    while ((line = strsep(&rest, "\n")) != NULL) {
        line += strspn(line, blanks);
        char *equals = strchr(line, '=');
        if (*line == '#' || *line == ';' || equals == NULL) continue;
        *equals = 0;
        char *value = plain(equals + 1);
        if (value == NULL) return "a value has quotes or backslashes within";
        line[strcspn(line, blanks)] = 0;
        mistake = take(settings, line, value);
        if (mistake != NULL) return mistake;
    }
    if (!settings->is_for_login) return NULL;
    if (settings->volume == NULL || settings->volume[0] != '/') return "VOLUME is not an absolute path";
    if (settings->mount_point == NULL || settings->mount_point[0] != '/') return "MOUNTPOINT is not an absolute path";
    return NULL;
}
