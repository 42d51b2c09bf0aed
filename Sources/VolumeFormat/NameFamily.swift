// Names that programs derive from a file's name for its copies: backups, swap files, journals, temporary files.

/// Decides which names belong together by a table of patterns. Names are bytes, and no file is looked up.
package enum NameFamily {
    /// A set of patterns of the table.
    package struct Patterns: OptionSet, Sendable, Hashable {
        /// A bit for each row of the table.
        package let rawValue: UInt64

        /// A set with these bits.
        package init(rawValue: UInt64) { self.rawValue = rawValue }

        /// Every pattern.
        package static let all = Patterns(rawValue: UInt64.max)
    }

    /// The relation of one name to others.
    package struct Derivation: Sendable, Equatable {
        /// The parts of the name that it may be derived from.
        package var sources: [Range<Int>] = []
        /// Those of them for which `derived` gives this name again, because the pattern has no variable part.
        package var roots: [Range<Int>] = []
        /// The patterns of that relation.
        package var patterns: Patterns = []
    }

    /// The variable part of a pattern, besides the other name.
    enum Variable {
        case nothing
        /// One or more digits.
        case digits
        /// This many small letters.
        case letters(Int)
        /// This many letters and digits.
        case alphanumerics(Int)
        /// This many hexadecimal digits.
        case hexadecimal(Int)
    }

    /// `before` X `after` `variable` `end`, where X is the name that this one is derived from.
    struct Pattern {
        var before: StaticString = ""
        var after: StaticString = ""
        var variable = Variable.nothing
        var end: StaticString = ""
        /// The name begins with a dot, and so does X, because no second dot was put before it.
        var keepsDot = false
    }

    /// The names that `name` is derived from, by every pattern that it matches.
    package static func derivation(of name: Span<UInt8>) -> Derivation {
        var result = Derivation()
        for index in table.indices {
            guard let source = table[index].source(in: name) else { continue }
            if !result.sources.contains(source) { result.sources.append(source) }
            guard case .nothing = table[index].variable else { continue }
            if !result.roots.contains(source) { result.roots.append(source) }
            result.patterns.insert(Patterns(rawValue: 1 << UInt64(index)))
        }
        return result
    }

    /// The names that are derived from `name` by `patterns`. A pattern with a variable part gives none, because there would be
    /// too many.
    package static func derived(from name: Span<UInt8>, by patterns: Patterns) -> [[UInt8]] {
        guard !patterns.isEmpty else { return [] }
        var result: [[UInt8]] = []
        for index in table.indices where patterns.contains(Patterns(rawValue: 1 << UInt64(index))) {
            guard let derived = table[index].derived(from: name), derived.count <= NameLimits.longest else { continue }
            result.append(derived)
        }
        return result
    }

    /// The patterns of real programs (`docs/use/saves.md`). At most 64; the order has no meaning.
    static let table: [Pattern] = [
        // Backups: emacs, vim, nano -B, GLib, rsync -b; emacs and cp with numbers; patch; others.
        Pattern(after: "~"),
        Pattern(after: ".~", variable: .digits, end: "~"),
        Pattern(after: ".bak"),
        Pattern(after: ".orig"),
        Pattern(after: ".rej"),
        Pattern(after: ".old"),
        Pattern(after: ".save"),
        // Emacs: unsaved changes, and its lock.
        Pattern(before: "#", after: "#"),
        Pattern(before: ".#"),
        // Vim and nano: swap and lock files; .swo, .swn and so on down to .saa if the name is taken. Vim: undo files.
        Pattern(before: ".", after: ".swp"),
        Pattern(before: ".", after: ".swp", keepsDot: true),
        Pattern(before: ".", after: ".s", variable: .letters(2)),
        Pattern(before: ".", after: ".s", variable: .letters(2), keepsDot: true),
        Pattern(before: ".", after: ".un~"),
        Pattern(before: ".", after: ".kate-swp"),
        Pattern(after: ".autosave"),
        // Lock files of LibreOffice and others, with the name of the editing user.
        Pattern(before: ".~lock.", after: "#"),
        Pattern(before: "~$"),
        // SQLite.
        Pattern(after: "-journal"),
        Pattern(after: "-wal"),
        Pattern(after: "-shm"),
        Pattern(after: "-mj", variable: .hexadecimal(9)),
        // Temporary files that are renamed over the file when complete: rsync; GLib, Qt and mkstemp; patch; systemd; git;
        // others.
        Pattern(before: ".", after: ".", variable: .alphanumerics(6)),
        Pattern(after: ".", variable: .alphanumerics(6)),
        Pattern(after: ".o", variable: .alphanumerics(6)),
        Pattern(before: ".#", variable: .hexadecimal(16)),
        Pattern(after: ".lock"),
        Pattern(after: ".new"),
        Pattern(after: ".tmp"),
        Pattern(after: ".temp"),
        Pattern(before: ".", after: ".tmp"),
        Pattern(after: "___jb_tmp___"),
        Pattern(after: "___jb_old___"),
        Pattern(before: ".syncthing.", after: ".tmp"),
        Pattern(before: "~syncthing~", after: ".tmp"),
        // Partial downloads.
        Pattern(after: ".part"),
        Pattern(before: ".", after: ".part"),
        Pattern(after: ".partial"),
        Pattern(after: ".download"),
        Pattern(after: ".crdownload"),
    ]
}

extension NameFamily.Pattern {
    /// The part of `name` that it is derived from by this pattern. Nil if it has another form.
    func source(in name: Span<UInt8>) -> Range<Int>? {
        let start = before.utf8CodeUnitCount
        var finish = name.count - end.utf8CodeUnitCount
        guard finish > start, name.hasText(before), name.hasText(end, at: finish) else { return nil }
        let count = variable.count(in: name, before: finish)
        guard let count else { return nil }
        finish -= count + after.utf8CodeUnitCount
        guard finish > start, name.hasText(after, at: finish) else { return nil }
        return (keepsDot ? 0 : start)..<finish
    }

    /// The name derived from `name`. Nil if the pattern has a variable part, or does not fit.
    func derived(from name: Span<UInt8>) -> [UInt8]? {
        guard case .nothing = variable else { return nil }
        var result: [UInt8] = []
        if keepsDot {
            guard !name.isEmpty, name[0] == UInt8(ascii: ".") else { return nil }
        } else {
            result.append(before)
        }
        for index in name.indices { result.append(name[index]) }
        result.append(after)
        result.append(end)
        return result
    }
}

extension NameFamily.Variable {
    /// The number of bytes before `finish` that match this. Nil if they do not match.
    func count(in name: Span<UInt8>, before finish: Int) -> Int? {
        switch self {
        case .nothing: 0
        case .digits: Self.run(in: name, before: finish, isDigit)
        case .letters(let count): Self.all(count, in: name, before: finish) { (0x61...0x7a).contains($0) }
        case .alphanumerics(let count): Self.all(count, in: name, before: finish, isAlphanumeric)
        case .hexadecimal(let count):
            Self.all(count, in: name, before: finish) { isDigit($0) || (0x61...0x66).contains($0 | 0x20) }
        }
    }

    private static func run(in name: Span<UInt8>, before finish: Int, _ fits: (UInt8) -> Bool) -> Int? {
        var count = 0
        while count < finish, fits(name[finish - count - 1]) { count += 1 }
        return count > 0 ? count : nil
    }

    private static func all(_ count: Int, in name: Span<UInt8>, before finish: Int, _ fits: (UInt8) -> Bool) -> Int? {
        guard finish >= count else { return nil }
        for offset in finish - count..<finish where !fits(name[offset]) { return nil }
        return count
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

private func isAlphanumeric(_ byte: UInt8) -> Bool { isDigit(byte) || (0x61...0x7a).contains(byte | 0x20) }

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { unsafe append(contentsOf: $0) }
    }
}
