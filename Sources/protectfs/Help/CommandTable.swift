// The table of all commands.

extension Command {
    /// The table of all commands, in the order of the help.
    static let all: [Command] = [
        .initialise, .info, .erase,
        .mount, .unmount, .status,
        .unlock, .lock, .wait, .watch, .agent,
        .classGet, .classSet, .classList,
        .secretSet, .secretGet, .secretList, .secretDelete, .secretService,
        .slotAdd, .slotRemove, .slotList, .slotTest, .recipientNew, .recipientShow,
        .passphraseChange, .recoveryUse,
        .keysRotate, .keysRetire, .keybagExport, .keybagImport,
        .importTree, .check, .trust, .inspect, .path, .speed, .configuration, .doctor,
        .help, .version,
    ]

    /// Former names, which still work in version 1.0, and are neither in help nor in completions.
    private static let former: [String: Command] = [
        "passphrase add": .passphraseAdd, "passphrase remove": .slotRemove, "passphrase list": .slotList,
        "recovery new": .recoveryNew,
    ]

    /// The command that `words` begin with, and the number of words in its name.
    static func find(_ words: [String]) -> (command: Command, length: Int)? {
        for length in [2, 1] where words.count >= length {
            let name = words.prefix(length).joined(separator: " ")
            if let command = all.first(where: { $0.name == name }) ?? former[name] { return (command, length) }
        }
        return nil
    }

    /// The commands under a word such as `class`. Empty for any other word.
    static func subcommands(of word: String) -> [Command] { all.filter { $0.name.hasPrefix(word + " ") } }
}
