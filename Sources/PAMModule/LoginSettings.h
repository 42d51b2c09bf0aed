/*
 * The settings of one volume: a file NAME.conf in ~/.config/protectfs, which the unit protectfs@NAME reads as well.
 */
#ifndef PROTECTFS_PAM_LOGINSETTINGS_H
#define PROTECTFS_PAM_LOGINSETTINGS_H

#include <stddef.h>

#define PFS_LONGEST_SETTINGS_NAME 200
#define PFS_LONGEST_SETTINGS 65536
#define PFS_MOST_OPTIONS 32

enum pfs_at_logout { PFS_LOCK, PFS_UNMOUNT, PFS_KEEP };

struct pfs_settings {
    char name[PFS_LONGEST_SETTINGS_NAME + 1];
    /* LOGIN=yes and FOLLOW_PASSWORD=yes. */
    int is_for_login, follows_password;
    enum pfs_at_logout at_logout;
    /* Pointers into the text; NULL if missing. */
    const char *volume, *mount_point;
    char *options[PFS_MOST_OPTIONS];
    size_t option_count;
    int has_no_unlock;
    char text[PFS_LONGEST_SETTINGS + 1];
};

/*
 * Takes the name of a directory's entry without its end. Returns 0 if it cannot be an instance of a unit. The log shows it, so it
 * has no strange characters.
 */
int pfs_settings_take_name(struct pfs_settings *settings, const char *entry);

/*
 * Reads the file of a directory's entry. Other entries give settings that are not for the login. Returns what is wrong with the
 * file, or NULL.
 */
const char *pfs_settings_read(struct pfs_settings *settings, int directory, const char *entry);

#endif
