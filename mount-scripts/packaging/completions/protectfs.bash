# bash completion for protectfs; made by mount-scripts/packaging/make-command-docs, and installed by mount-scripts/install.

_protectfs_words="init info erase mount unmount status unlock lock wait watch class secret passphrase recovery keybag fsck inspect path speed help version"
_protectfs_mount_options="ro rw allow_other allow_dev allow_suid remount default_class=complete default_class=completeUnlessOpen default_class=completeUntilFirstUserAuthentication default_class=none shared strict recover no_family_class no_complete_cache idle= uid= gid= umask= noatime relatime atime strictatime nodiratime nodev dev nosuid suid noexec exec sync dirsync"

# Sets what may follow the word $1.
_protectfs_subcommands() {
    case $1 in
    class) subcommands="get set list" ;;
    secret) subcommands="set get list delete" ;;
    passphrase) subcommands="change add remove list" ;;
    recovery) subcommands="new use" ;;
    keybag) subcommands="export import" ;;
    esac
}

# Sets the kind of value that option $1 takes.
_protectfs_option() {
    case $1 in
    --cipher) kind=words:aes-256-gcm,xchacha20-poly1305 ;;
    --device-key | --passphrase-file | --new-passphrase-file | --recovery-file | --file | --accept-names-from) kind=path ;;
    --label | --grace | --timeout | --attribute | -a | --slot | --accept-name) kind=text ;;
    --passphrase-command | --new-passphrase-command) kind=command ;;
    --option | -o) kind=mountOptions ;;
    --class) kind=words:complete,completeUnlessOpen,completeUntilFirstUserAuthentication,none ;;
    --volume) kind=directory ;;
    esac
}

# Sets the options and the kinds of operands of command $1.
_protectfs_command() {
    case $1 in
    "init") options="--cipher --device-key --portable --label --json --passphrase-file --passphrase-command --new-passphrase-file --new-passphrase-command --weak-passphrase" operands="directory" ;;
    "info") options="--json --device-key --previous-keybag" operands="directory" ;;
    "erase") options="--json --yes --device-key" operands="directory" ;;
    "mount") options="--option --foreground --log-names --trace --no-unlock --read-only --device-key --passphrase-file --passphrase-command --recovery-file --accept-keybag --previous-keybag --accept-copy" operands="directory directory" ;;
    "unmount") options="--force --grace" operands="mountPoint" ;;
    "status") options="--all --json" operands="mountPoint" ;;
    "unlock") options="--passphrase-file --passphrase-command --recovery-file" operands="mountPoint" ;;
    "lock") options="--grace --all --json" operands="mountPoint" ;;
    "wait") options="--unlocked --locked --first-unlock --timeout" operands="mountPoint" ;;
    "watch") options="--json" operands="mountPoint" ;;
    "class get") options="--json" operands="path…" ;;
    "class set") options="--recursive --reencrypt --wrap-only" operands="words:complete,completeUnlessOpen,completeUntilFirstUserAuthentication,none,inherit path…" ;;
    "class list") options="--recursive --json" operands="path…" ;;
    "secret set") options="--class --attribute --internet --file --line --new" operands="mountPoint text" ;;
    "secret get") options="--attribute --internet" operands="mountPoint text" ;;
    "secret list") options="--attribute --internet --json" operands="mountPoint text" ;;
    "secret delete") options="--attribute --internet --all" operands="mountPoint text" ;;
    "passphrase change") options="--slot --label --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --weak-passphrase" operands="directory" ;;
    "passphrase add") options="--portable --label --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --weak-passphrase" operands="directory" ;;
    "passphrase remove") options="--slot --newer --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag" operands="directory" ;;
    "passphrase list") options="--json" operands="directory" ;;
    "recovery new") options="--label --json --passphrase-file --passphrase-command --recovery-file --device-key --previous-keybag --accept-keybag" operands="directory" ;;
    "recovery use") options="--portable --recovery-file --device-key --label --previous-keybag --accept-keybag --json --new-passphrase-file --new-passphrase-command --weak-passphrase" operands="directory" ;;
    "keybag export") options="--device-key --previous-keybag --accept-keybag" operands="directory path" ;;
    "keybag import") options="--passphrase-file --passphrase-command --recovery-file --device-key --accept-keybag" operands="directory path" ;;
    "fsck") options="--json --no-unlock --read-only --quick --repair --quarantine --resume --forget-state --device-key --accept-name --accept-names-from --accept-names --passphrase-file --passphrase-command --recovery-file --accept-keybag --previous-keybag" operands="directory" ;;
    "inspect") options="--json --pages --volume --no-unlock --device-key --passphrase-file --passphrase-command --recovery-file --accept-keybag --previous-keybag" operands="path" ;;
    "path") options="--json --reverse --missing" operands="path" ;;
    "speed") options="--json" operands="" ;;
    "help") options="--json" operands="commandName…" ;;
    "version") options="--json" operands="" ;;
    esac
}

# Fills COMPREPLY with what completes a value of kind $1 that begins with $2.
_protectfs_value() {
    local line prefix=
    case $1 in
    path) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
    command) mapfile -t COMPREPLY < <(compgen -c -f -- "$2" | sort -u) ;;
    words:*) line=${1#words:}; mapfile -t COMPREPLY < <(compgen -W "${line//,/ }" -- "$2") ;;
    mountPoint)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$2")
        while IFS= read -r line; do
            [[ $line == "$2"* ]] && COMPREPLY+=("$line")
        done < <(findmnt -ln -o TARGET -t fuse.protectfs 2>/dev/null)
        ;;
    mountOptions)
        [[ $2 == *,* ]] && prefix=${2%,*},
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$_protectfs_mount_options" -- "${2##*,}")
        ;;
    esac
}

_protectfs() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
    local first=2 index=0 options= operands= subcommands= kind= word
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$_protectfs_words --help --version" -- "$current")
        return
    fi
    _protectfs_subcommands "$command"
    if [ -n "$subcommands" ]; then
        if [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$current")
            return
        fi
        command="$command ${COMP_WORDS[2]}" first=3
    fi
    # Bash takes --name=value for three words.
    if [ "$current" = = ]; then
        current=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    _protectfs_option "$previous"
    if [ -n "$kind" ]; then
        _protectfs_value "$kind" "$current"
        return
    fi
    _protectfs_command "$command"
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$current")
        return
    fi
    # Which operand it is: options and their values do not count.
    while [ "$first" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[first]} kind=
        _protectfs_option "$word"
        if [ -n "$kind" ]; then
            [ "${COMP_WORDS[first + 1]-}" != = ] || first=$((first + 1))
            first=$((first + 1))
        elif [[ $word != -* ]]; then
            index=$((index + 1))
        fi
        first=$((first + 1))
    done
    set -- $operands
    [ $# -gt 0 ] || return
    while [ "$index" -gt 0 ] && [ $# -gt 1 ]; do
        shift
        index=$((index - 1))
    done
    [ "$index" -eq 0 ] || [[ $1 == *… ]] || return
    kind=${1%…}
    if [ "$kind" = commandName ]; then
        subcommands=$_protectfs_words
        [ "$COMP_CWORD" -eq 2 ] || { subcommands=; _protectfs_subcommands "$previous"; }
        kind="words:${subcommands// /,}"
    fi
    _protectfs_value "$kind" "$current"
}
complete -F _protectfs protectfs
