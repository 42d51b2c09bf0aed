"""Makes the completions of bash, zsh and fish from the table of commands; make-command-docs calls it."""

NOTE = "# {} completion for protectfs; made by mount-scripts/packaging/make-command-docs, and installed by mount-scripts/install."


def files(table):
    """The three completion files with their texts."""
    commands = [command for group in table["groups"] for command in group["commands"]]
    words = {}
    for command in commands:
        first, _, second = command["name"].partition(" ")
        words.setdefault(first, []).append(second)
    classes = next(operand["words"] for command in commands if command["name"] == "class set"
                   for operand in command["operands"] if operand["words"])
    # Not a class: it takes a directory's default away.
    classes = [word for word in classes if word != "inherit"]
    options = [dict(option, words=classes if option["value"] == "CLASS" else []) for option in table["mountOptions"]
               if option["use"] != "ignored"]
    pages = table["pages"]
    return {"protectfs.bash": bash(commands, words, options, pages), "_protectfs": zsh(commands, words, options, pages),
            "protectfs.fish": fish(commands, words, options, pages)}


def groups(words):
    """The words that need a subcommand."""
    return {word: found for word, found in words.items() if found != [""]}


def summary(commands, words, word):
    """What a first word does: the command, or the subcommands that follow it."""
    if word in groups(words):
        return ", ".join(words[word])
    return next(command["summary"] for command in commands if command["name"] == word)


def mount_words(options):
    """The words after -o; an = shows that a value follows."""
    found = []
    for option in options:
        if option["words"]:
            found += [f"{option['name']}={word}" for word in option["words"]]
        else:
            found.append(option["name"] + ("=" if option["value"] else ""))
    return found


def kind(value):
    """What completes a value, in one word of a shell."""
    return "words:" + ",".join(value["words"]) if value["words"] else value["kind"]


# bash

BASH = r"""
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
"""


def bash(commands, words, options, pages):
    lines = [NOTE.format("bash"), "", f'_protectfs_words="{" ".join(words)}"',
             f'_protectfs_pages="{" ".join(page["name"] for page in pages)}"',
             f'_protectfs_mount_options="{" ".join(option["name"] + ("=" if option["value"] else "") for option in options)}"',
             f'_protectfs_mount_values="{" ".join(word for word in mount_words(options) if word.partition("=")[2])}"', "",
             "# Sets what may follow the word $1.", "_protectfs_subcommands() {", "    case $1 in"]
    lines += [f'    {word}) subcommands="{" ".join(found)}" ;;' for word, found in groups(words).items()]
    lines += ["    esac", "}", "", "# Sets the kind of value that option $1 takes.", "_protectfs_option() {", "    case $1 in"]
    kinds = {}
    for command in commands:
        for option in command["options"]:
            if not option["value"]:
                continue
            for name in ["--" + option["name"]] + (["-" + option["letter"]] if option["letter"] else []):
                assert kinds.setdefault(name, kind(option["value"])) == kind(option["value"]), name
    by_kind = {}
    for name, found in kinds.items():
        by_kind.setdefault(found, []).append(name)
    lines += [f'    {" | ".join(found)}) kind={value} ;;' for value, found in by_kind.items()]
    lines += ["    esac", "}", "", "# Sets the options and the kinds of operands of command $1.", "_protectfs_command() {",
              "    case $1 in"]
    for command in commands:
        names = " ".join("--" + option["name"] for option in command["options"] if option["name"] != "help")
        operands = " ".join(kind(operand) + ("…" if operand["repeated"] else "") for operand in command["operands"])
        lines.append(f'    "{command["name"]}") options="{names}" operands="{operands}" ;;')
    lines += ["    esac", "}"]
    return "\n".join(lines) + "\n" + BASH


# zsh

ZSH = r"""
_protectfs_mount_points() {
    local -a points expl
    local line base=
    for line in "${(@f)$(</proc/self/mountinfo)}"; do
        # The kernel writes a space as \040.
        [[ $line != *' - fuse.protectfs '* ]] || points+=("${(g:o:)${${(s: :)line}[5]}}")
    done
    # As it is typed: from the home directory, or from the current one.
    if compset -P '\~/'; then
        base=$HOME/
    elif [[ -n $PREFIX && $PREFIX != /* ]]; then
        base=$PWD/
    fi
    points=("${(@)${(@M)points:#${(b)base}*}#$base}")
    _wanted mounts expl 'mount point' compadd -a points
}
"""


def zsh_text(text, specials):
    for special in "\\" + specials:
        text = text.replace(special, "\\" + special)
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_action(value):
    if value["words"]:
        return "(" + " ".join(value["words"]) + ")"
    return {"path": "_files", "directory": "_directories", "mountPoint": "_protectfs_mount_points",
            "command": "_command_names -e", "mountOptions": "_protectfs_mount_options",
            "commandName": "_protectfs_named_command"}.get(value["kind"], " ")


def zsh_option(option):
    """An option's specifications for _arguments: one for each of its names."""
    default = f" (default: {option['default']})" if option["default"] else ""
    found = []
    for name in (["-" + option["letter"]] if option["letter"] else []) + ["--" + option["name"]]:
        meaning = zsh_text(option["help"] + default, "[]:")[1:-1]
        value = option["value"]
        mark = ("=" if name.startswith("--") else "+") if value else ""
        action = f":{value['name']}:{zsh_action(value)}" if value else ""
        found.append(f"'{'*' if option['repeated'] else ''}{name}{mark}[{meaning}]{action}'")
    return found


def zsh(commands, words, options, pages):
    lines = ["#compdef protectfs", NOTE.format("zsh"), "", "_protectfs_commands() {", "    local -a commands",
             "    commands=("]
    lines += [f"        {zsh_text(word + chr(0) + summary(commands, words, word), ':').replace(chr(0), ':')}" for word in words]
    lines += ["    )", "    _describe command commands", "}", "", "_protectfs_mount_options() {",
              "    _values -s , 'mount option' \\"]
    for option in options:
        value = f":{option['value']}:({' '.join(option['words'])})" if option["value"] else ""
        meaning = zsh_text(option["meaning"] or "for the kernel", "[]:")[1:-1]
        lines.append(f"        '{option['name']}[{meaning}]{value}' \\")
    lines[-1] = lines[-1].removesuffix(" \\")
    lines += ["}", "", "# The words of a command after protectfs help.", "_protectfs_named_command() {", "    case $CURRENT,$words[2] in",
              f"    2,*) _protectfs_commands; compadd {' '.join(page['name'] for page in pages)} ;;"]
    lines += [f"    3,{word}) compadd {' '.join(found)} ;;" for word, found in groups(words).items()]
    lines += ["    esac", "}"] + ZSH.rstrip().split("\n") + ["", "_protectfs() {", "    local -a commands",
              "    if (( CURRENT == 2 )); then", "        _protectfs_commands", "        return", "    fi",
              "    shift words", "    (( CURRENT-- ))", "    local command=$words[1]", "    case $command in"]
    lines += [f"    {'|'.join(groups(words))})", "        if (( CURRENT == 2 )); then", "            case $command in"]
    for word, found in groups(words).items():
        meanings = {command["name"]: command["summary"] for command in commands}
        described = " ".join(zsh_text(name + chr(0) + meanings[f"{word} {name}"], ":").replace(chr(0), ":") for name in found)
        lines.append(f"            {word}) commands=({described}) ;;")
    lines += ["            esac", "            _describe subcommand commands", "            return", "        fi",
              '        command="$command $words[2]"', "        shift words", "        (( CURRENT-- ))", "        ;;",
              "    esac", "    case $command in"]
    for command in commands:
        specifications = [form for option in command["options"] for form in zsh_option(option)]
        for number, operand in enumerate(command["operands"], 1):
            place = "*" if operand["repeated"] else f"{number}"
            colon = "::" if operand["optional"] and place != "*" else ":"
            specifications.append(f"'{place}{colon}{operand['name']}:{zsh_action(operand)}'")
        lines += [f"    '{command['name']}')", "        _arguments \\"]
        lines += [f"            {form} \\" for form in specifications]
        lines[-1] = lines[-1].removesuffix(" \\") + " ;;"
    return "\n".join(lines + ["    esac", "}", '_protectfs "$@"']) + "\n"


# fish

FISH = r"""
# Whether the words so far are exactly these.
function __protectfs_at
    set -l words (commandline -opc)
    set -e words[1]
    test "$words" = "$argv"
end

# Whether the words so far begin with these.
function __protectfs_in
    set -l words (commandline -opc)
    set -e words[1]
    set -l count (count $argv)
    test (count $words) -ge $count; and test "$words[1..$count]" = "$argv"
end

# The mount points of protectfs in the form in which the word is typed, each with a byte 0 behind it.
function __protectfs_mount_points
    set -l typed (commandline -ct)
    set -l base
    set -l shown ''
    if string match -q -- '~/*' $typed
        set base $HOME/
        set shown '~/'
    else if test -n "$typed"; and not string match -q -- '/*' $typed; and not string match -qr -- '^[\'"]' $typed
        set base $PWD/
    end
    while read -l line
        string match -q -- '* - fuse.protectfs *' $line; or continue
        # The kernel writes a space as \040.
        set -l point (printf %b (string replace -a '\\' '\\0' -- (string split ' ' -- $line)[5]) | string collect -N)
        if test -z "$base"
            printf '%s\0' $point
        else if test (string sub -l (string length -- "$base") -- $point | string collect) = "$base"
            printf '%s\0' $shown(string sub -s (math (string length -- "$base") + 1) -- $point | string collect)
        end
    end </proc/self/mountinfo
end
"""


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_value(value):
    """The flags for what completes a value."""
    if value["words"]:
        return " -f -a " + fish_text(" ".join(value["words"]))
    found = {"path": " -F", "text": " -f", "directory": " -f -a '(__fish_complete_directories (commandline -ct))'",
             "mountPoint": " -f -a '(__protectfs_mount_points | string split0)'", "command": " -f -a '(__fish_complete_command)'",
             "mountOptions": " -f -a '(__fish_complete_list , __protectfs_mount_options)'"}
    return found[value["kind"]]


def fish(commands, words, options, pages):
    lines = [NOTE.format("fish")] + FISH.rstrip().split("\n") + ["", "function __protectfs_mount_options"]
    for option in options:
        for word in mount_words([option]):
            lines.append(f"    printf '%s\\t%s\\n' {word} {fish_text(option['meaning'] or 'for the kernel')}")
    lines += ["end", ""]
    for word in words:
        for place in ("__protectfs_at", "'__protectfs_at help'"):
            lines.append(f"complete -c protectfs -n {place} -f -a {word} -d {fish_text(summary(commands, words, word))}")
    for page in pages:
        lines.append(f"complete -c protectfs -n '__protectfs_at help' -f -a {page['name']} -d {fish_text(page['summary'])}")
    lines.append("complete -c protectfs -n __protectfs_at -l help -d 'show this help'")
    lines.append("complete -c protectfs -n __protectfs_at -l version -d 'Shows the version.'")
    for command in commands:
        first, _, second = command["name"].partition(" ")
        for place in ([first, f"help {first}"] if second else []):
            lines.append(f"complete -c protectfs -n '__protectfs_at {place}' -f -a {second} -d {fish_text(command['summary'])}")
    for command in commands:
        start = f"complete -c protectfs -n '__protectfs_in {command['name']}'"
        for operand in command["operands"]:
            if operand["kind"] != "commandName":
                flags = fish_value(operand)
                # Files are completed where another operand is one.
                if any(other["kind"] == "path" for other in command["operands"]):
                    flags = flags.replace(" -f", " -F")
                lines.append(start + flags)
        for option in command["options"]:
            letter = f" -s {option['letter']}" if option["letter"] else ""
            value = " -r" + fish_value(option["value"]) if option["value"] else ""
            default = f" (default: {option['default']})" if option["default"] else ""
            lines.append(f"{start}{letter} -l {option['name']}{value} -d {fish_text(option['help'] + default)}")
    return "\n".join(lines) + "\n"
