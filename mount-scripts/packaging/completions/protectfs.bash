# bash completion for protectfs; made by mount-scripts/packaging/make-command-docs, and installed by mount-scripts/install.

_protectfs_words="init info erase mount unmount status unlock lock wait watch agent class secret slot recipient passphrase recovery keys keybag import fsck trust inspect path speed config doctor help version"
_protectfs_pages="credentials mount-options"
_protectfs_mount_options="ro rw allow_other allow_dev allow_suid remount default_class= shared strict fresh recover no_family_class no_complete_cache io_uring= idle= inactive= uid= gid= umask= noatime relatime atime strictatime nodiratime nodev dev nosuid suid noexec exec sync dirsync"
_protectfs_mount_values="default_class=complete default_class=completeUnlessOpen default_class=completeWhenUserInactive default_class=completeUntilFirstUserAuthentication default_class=none"

# Sets what may follow the word $1.
_protectfs_subcommands() {
    case $1 in
    class) subcommands="get set list" ;;
    secret) subcommands="set get list delete service" ;;
    slot) subcommands="add remove list test" ;;
    recipient) subcommands="new show" ;;
    passphrase) subcommands="change" ;;
    recovery) subcommands="use" ;;
    keys) subcommands="rotate retire" ;;
    keybag) subcommands="export import" ;;
    esac
}

# Sets the kind of value that option $1 takes.
_protectfs_option() {
    case $1 in
    --cipher) kind=words:aes-256-gcm,xchacha20-poly1305 ;;
    --device-key | --passphrase-file | --new-passphrase-file | --recovery-file | --recipient-key | --fido2-key | --tpm2-pin-file | --fido2-pin-file | --file | --recipient | --fido2-device | --new-fido2-pin-file | --accept-names-from) kind=path ;;
    --label | --passphrase-credential | --new-passphrase-credential | --tpm2-device | --grace | --timeout | --attribute | -a | --pcrs | --slot | --rate | --into | --accept-name) kind=text ;;
    --passphrase-command | --new-passphrase-command | --tpm2-pin-command | --fido2-pin-command | --new-fido2-pin-command) kind=command ;;
    --option | -o) kind=mountOptions ;;
    --reason) kind=words:command,sleep ;;
    --class) kind=words:complete,completeUnlessOpen,completeWhenUserInactive,completeUntilFirstUserAuthentication,none ;;
    --volume) kind=directory ;;
    esac
}

# Sets the options and the kinds of operands of command $1.
_protectfs_command() {
    case $1 in
    "init") options="--cipher --device-key --portable --label --json --passphrase-file --passphrase-command --passphrase-credential --new-passphrase-file --new-passphrase-command --new-passphrase-credential --weak-passphrase" operands="directory" ;;
    "info") options="--json --device-key --previous-keybag" operands="directory" ;;
    "erase") options="--json --yes --device-key" operands="directory" ;;
    "mount") options="--option --foreground --log-names --trace --no-unlock --read-only --device-key --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --accept-keybag --previous-keybag --accept-copy" operands="directory directory" ;;
    "unmount") options="--force --grace" operands="mountPoint" ;;
    "status") options="--all --json" operands="mountPoint" ;;
    "unlock") options="--passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command" operands="mountPoint" ;;
    "lock") options="--grace --all --reason --json" operands="mountPoint" ;;
    "wait") options="--unlocked --locked --first-unlock --timeout" operands="mountPoint" ;;
    "watch") options="--json" operands="mountPoint" ;;
    "agent") options="--mount" operands="" ;;
    "class get") options="--json" operands="path…" ;;
    "class set") options="--recursive --reencrypt --wrap-only" operands="words:complete,completeUnlessOpen,completeWhenUserInactive,completeUntilFirstUserAuthentication,none,inherit path…" ;;
    "class list") options="--recursive --json" operands="path…" ;;
    "secret set") options="--class --attribute --internet --file --line --new" operands="mountPoint text" ;;
    "secret get") options="--attribute --internet" operands="mountPoint text" ;;
    "secret list") options="--attribute --internet --json" operands="mountPoint text" ;;
    "secret delete") options="--attribute --internet --all" operands="mountPoint text" ;;
    "secret service") options="--class --passphrase-command" operands="mountPoint" ;;
    "slot add") options="--portable --recovery --recipient --tpm2 --pcrs --pin --fido2 --fido2-device --no-pin --new-fido2-pin-file --new-fido2-pin-command --label --json --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --new-passphrase-credential --weak-passphrase" operands="directory" ;;
    "slot remove") options="--slot --newer --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --device-key --previous-keybag --accept-keybag" operands="directory" ;;
    "slot list") options="--json" operands="directory" ;;
    "slot test") options="--json --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --device-key --previous-keybag --accept-keybag" operands="directory" ;;
    "recipient new") options="--json" operands="path" ;;
    "recipient show") options="--json" operands="path" ;;
    "passphrase change") options="--slot --label --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --device-key --previous-keybag --accept-keybag --new-passphrase-file --new-passphrase-command --new-passphrase-credential --weak-passphrase" operands="directory" ;;
    "recovery use") options="--portable --recovery-file --device-key --label --previous-keybag --accept-keybag --json --new-passphrase-file --new-passphrase-command --new-passphrase-credential --weak-passphrase" operands="directory" ;;
    "keys rotate") options="--class --rate --retire --ask-others --drop-slots --passphrase-file --passphrase-command --passphrase-credential --ask-password --device-key --accept-keybag" operands="directory" ;;
    "keys retire") options="--ask-others --drop-slots --passphrase-file --passphrase-command --passphrase-credential --ask-password --device-key --accept-keybag" operands="directory" ;;
    "keybag export") options="--device-key --previous-keybag --accept-keybag" operands="directory path" ;;
    "keybag import") options="--passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --device-key --accept-keybag" operands="directory path" ;;
    "import") options="--class --into --replace --move --verify-only --json --device-key --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --accept-keybag" operands="directory directory" ;;
    "fsck") options="--json --no-unlock --read-only --quick --repair --quarantine --resume --forget-state --device-key --accept-name --accept-names-from --accept-names --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --accept-keybag --previous-keybag" operands="directory" ;;
    "trust") options="--all" operands="path" ;;
    "inspect") options="--json --pages --volume --no-unlock --device-key --passphrase-file --passphrase-command --passphrase-credential --ask-password --recovery-file --recipient-key --tpm2 --fido2-key --tpm2-pin-file --tpm2-pin-command --tpm2-device --fido2-pin-file --fido2-pin-command --accept-keybag --previous-keybag" operands="path" ;;
    "path") options="--json --reverse --missing" operands="path" ;;
    "speed") options="--json" operands="" ;;
    "config") options="--json" operands="" ;;
    "doctor") options="--json" operands="mountPoint" ;;
    "help") options="--json" operands="commandName…" ;;
    "version") options="--json" operands="" ;;
    esac
}

# Sets `words` to the words of the line, and `at` to the number of the current one: bash itself also splits at = and :.
_protectfs_split() {
    local line=$COMP_LINE rest i
    words=() at=0
    for i in "${!COMP_WORDS[@]}"; do
        rest=${line#"${line%%[![:space:]]*}"}
        if [ "$i" -gt 0 ] && [ "$rest" = "$line" ]; then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        line=${rest#"${COMP_WORDS[i]}"}
        [ "$i" -ne "$COMP_CWORD" ] || at=$((${#words[@]} - 1))
    done
}

# Sets `plain` to the word $1 without its quoting.
_protectfs_unquote() {
    local rest=$1 quote= character
    plain=
    while [ -n "$rest" ]; do
        character=${rest:0:1} rest=${rest:1}
        if [ "$character" = \\ ] && [ "$quote" != "'" ]; then
            plain+=${rest:0:1} rest=${rest:1}
        elif [ -z "$quote" ] && [[ $character == [\"\'] ]]; then
            quote=$character
        elif [ "$character" = "$quote" ]; then
            quote=
        else
            plain+=$character
        fi
    done
}

# Adds the mount points of protectfs that begin with $1, in the form in which it is typed.
_protectfs_mount_points() {
    local id parent device root point rest base= shown=
    case $1 in
    "" | /*) ;;
    "~/"*) base=$HOME/ shown="~/" ;;
    *) base=$PWD/ ;;
    esac
    while read -r id parent device root point rest; do
        [[ $rest == *" - fuse.protectfs "* ]] || continue
        # The kernel writes a space as \040.
        printf -v point %b "${point//\\/\\0}"
        [[ $point == "$base"* ]] || continue
        point=$shown${point#"$base"}
        [[ $point != "$1"* ]] || COMPREPLY+=("$point")
    done </proc/self/mountinfo
}

# Adds the words of $1 that begin with $2.
_protectfs_choose() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

# Fills COMPREPLY with what completes a value of kind $1 that begins with $2.
_protectfs_value() {
    local prefix= last plain word given
    case $1 in
    path) compopt -o default 2>/dev/null ;;
    directory) compopt -o dirnames 2>/dev/null ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$2" | sort -u); compopt -o default 2>/dev/null ;;
    words:*) word=${1#words:}; _protectfs_choose "${word//,/ }" "$2" ;;
    mountPoint)
        compopt -o filenames 2>/dev/null
        _protectfs_unquote "$2"
        _protectfs_mount_points "$plain"
        ;;
    mountOptions)
        compopt -o nospace 2>/dev/null
        last=${2##*,} prefix=${2%"$last"}
        if [[ $last == *=* ]]; then
            _protectfs_choose "$_protectfs_mount_values" "$last"
        else
            _protectfs_choose "$_protectfs_mount_options" "$last"
        fi
        given=("${COMPREPLY[@]}") COMPREPLY=()
        for word in "${given[@]}"; do
            [[ ,$prefix == *",${word%%=*}"[,=]* ]] || COMPREPLY+=("$prefix$word")
        done
        ;;
    esac
    # Bash replaces what is behind the last = or :.
    last=${COMP_WORDS[COMP_CWORD]}
    case $last in = | : | :=) last= ;; esac
    prefix=${2%"$last"}
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
}

_protectfs() {
    local words at first=2 index=0 options= operands= subcommands= kind= word
    COMPREPLY=()
    _protectfs_split
    local current=${words[at]} previous=${words[at - 1]} command=${words[1]-}
    if [ "$at" -eq 1 ]; then
        _protectfs_choose "$_protectfs_words --help --version" "$current"
        return
    fi
    _protectfs_subcommands "$command"
    if [ -n "$subcommands" ]; then
        if [ "$at" -eq 2 ]; then
            _protectfs_choose "$subcommands" "$current"
            return
        fi
        command="$command ${words[2]}" first=3
    fi
    if [[ $current == --*=* ]]; then
        _protectfs_option "${current%%=*}"
        [ -z "$kind" ] || _protectfs_value "$kind" "${current#*=}"
        return
    fi
    _protectfs_option "$previous"
    if [ -n "$kind" ]; then
        _protectfs_value "$kind" "$current"
        return
    fi
    _protectfs_command "$command"
    if [[ $current == -* ]]; then
        _protectfs_choose "$options --help" "$current"
        return
    fi
    # Which operand it is: options and their values do not count.
    while [ "$first" -lt "$at" ]; do
        word=${words[first]} kind=
        _protectfs_option "$word"
        if [ -n "$kind" ]; then
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
        subcommands="$_protectfs_words $_protectfs_pages"
        [ "$at" -eq 2 ] || { subcommands=; _protectfs_subcommands "$previous"; }
        kind="words:${subcommands// /,}"
    fi
    _protectfs_value "$kind" "$current"
}
complete -F _protectfs protectfs
