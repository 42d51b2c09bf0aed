# bash completion for protectfs; installed by mount-scripts/install.

_protectfs() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-} options=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "init mount unlock lock status watch wait unmount class secret passphrase recovery fsck info speed erase version --help --version" -- "$current"))
        return
    fi
    case $command in
    class)
        if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "get set list" -- "$current")); return; fi
        command="class ${COMP_WORDS[2]}"
        ;;
    secret)
        if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "set get list delete" -- "$current")); return; fi
        command="secret ${COMP_WORDS[2]}"
        ;;
    passphrase)
        if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "change add remove list" -- "$current")); return; fi
        command="passphrase ${COMP_WORDS[2]}"
        ;;
    recovery)
        if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "new use" -- "$current")); return; fi
        command="recovery ${COMP_WORDS[2]}"
        ;;
    esac
    case $previous in
    --cipher) COMPREPLY=($(compgen -W "aes-256-gcm xchacha20-poly1305" -- "$current")); return ;;
    --class) COMPREPLY=($(compgen -W "complete completeUnlessOpen completeUntilFirstUserAuthentication none" -- "$current")); return ;;
    -o | --option) COMPREPLY=($(compgen -W "ro allow_other default_class= shared strict recover no_family_class idle= uid= gid= umask= noatime nodev nosuid noexec" -- "$current")); return ;;
    esac
    case $command in
    "init") options="--cipher --device-key --portable --json --passphrase-file --passphrase-command --new-passphrase-file --new-passphrase-command --weak-passphrase" ;;
    "mount") options="--option --foreground --log-names --trace --no-unlock --read-only --device-key --passphrase-file --passphrase-command --recovery-file --accept-keybag --previous-keybag" ;;
    "unlock") options="--passphrase-file --passphrase-command --recovery-file" ;;
    "lock") options="--grace --json" ;;
    "status") options="--json" ;;
    "watch") options="--json" ;;
    "wait") options="--unlocked --locked --first-unlock --timeout" ;;
    "unmount") options="" ;;
    "class get") options="--json" ;;
    "class set") options="--recursive --reencrypt --wrap-only" ;;
    "class list") options="--recursive --json" ;;
    "secret set") options="--class --attribute --internet --file --line --new" ;;
    "secret get") options="--attribute --internet" ;;
    "secret list") options="--attribute --internet --json" ;;
    "secret delete") options="--attribute --internet --all" ;;
    "passphrase change") options="--slot --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --weak-passphrase" ;;
    "passphrase add") options="--portable --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --weak-passphrase" ;;
    "passphrase remove") options="--slot --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag" ;;
    "passphrase list") options="--json" ;;
    "recovery new") options="--json --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag" ;;
    "recovery use") options="--portable --recovery-file --device-key --previous-keybag --accept-keybag --json --new-passphrase-file --new-passphrase-command --weak-passphrase" ;;
    "fsck") options="--json --no-unlock --read-only --repair --quarantine --accept-name --accept-names-from --accept-names --device-key --passphrase-file --passphrase-command --recovery-file --accept-keybag --previous-keybag" ;;
    "info") options="--json --device-key --previous-keybag" ;;
    "speed") options="--json" ;;
    "erase") options="--json --yes --device-key" ;;
    "version") options="--json" ;;
    esac
    if [ "$command" = "class set" ] && [ "$COMP_CWORD" -eq 3 ] && [[ $current != -* ]]; then
        COMPREPLY=($(compgen -W "complete completeUnlessOpen completeUntilFirstUserAuthentication none" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$current"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _protectfs protectfs
