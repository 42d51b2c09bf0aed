// Parses command lines, which may be hostile, into options and operands by the GNU conventions.

package import HostSystem

/// The options and operands of one call.
package struct Arguments {
    private var values: [String: [HostPath]] = [:]
    /// The operands, in order.
    package private(set) var operands: [HostPath] = []
    /// All words as given, without private options.
    package private(set) var words: [HostPath] = []
    /// The positions of private values: the index in the parsed words, and the byte.
    package private(set) var privateTexts: [(word: Int, byte: Int)] = []

    /// Parses `words`, a part of the process's own arguments, by `options`.
    ///
    /// `--name=value`, `--name value`, `-x value`, `-xvalue`, bundled letters and `--` work. `--help` and `-h` always exist.
    package init(_ words: ArraySlice<HostPath>, options: [Option]) throws(CommandFailure) {
        let known = options + [Option.help]
        var rest = words
        while let word = rest.popFirst() {
            let (text, first, texts) = (word.bytes, rest.startIndex - 1, privateTexts.count)
            if text == Array("--".utf8) {
                operands += rest
                self.words += words[first...]
                return
            }
            if text.starts(with: "--".utf8) {
                try takeLong(text.dropFirst(2), known, &rest)
            } else if text.first == UInt8(ascii: "-"), text.count > 1 {
                try takeLetters(text.dropFirst(), known, &rest)
            } else {
                operands.append(word)
            }
            if privateTexts.count == texts { self.words += words[first..<rest.startIndex] }
        }
    }

    /// The same without some options.
    package func without(_ names: [String]) -> Arguments {
        var result = self
        for name in names { result.values[name] = nil }
        return result
    }

    /// True when the option was given.
    package func has(_ name: String) -> Bool { values[name] != nil }

    /// The last value given.
    package func path(_ name: String) -> HostPath? { values[name]?.last }

    /// All values given.
    package func all(_ name: String) -> [HostPath] { values[name] ?? [] }

    /// The last value as text. Bytes that are not UTF-8 are refused.
    package func text(_ name: String) throws(CommandFailure) -> String? {
        guard let value = values[name]?.last else { return nil }
        guard let text = String(validating: value.bytes, as: UTF8.self) else {
            throw .init(.usage, "--\(name): the value must be UTF-8 text")
        }
        return text
    }

    /// The last value as seconds, at most ten years.
    package func seconds(_ name: String) throws(CommandFailure) -> UInt64? {
        guard let text = try text(name) else { return nil }
        guard let value = UInt64(text), value <= 315_360_000 else {
            throw .init(.usage, "--\(name): \"\(HostPath(text))\" is not a number of seconds")
        }
        return value
    }

    private mutating func takeLong(
        _ text: ArraySlice<UInt8>, _ known: [Option], _ rest: inout ArraySlice<HostPath>
    ) throws(CommandFailure) {
        let equals = text.firstIndex(of: UInt8(ascii: "="))
        let name = String(decoding: text[..<(equals ?? text.endIndex)], as: UTF8.self)
        guard let option = known.first(where: { $0.name == name }) else {
            let names = known.filter { $0.help != nil }.map(\.name)
            let suggestion = NearMiss.suggestion(for: name, among: names, prefix: "--")
            throw .init(.usage, "unknown option --\(HostPath(name))\(suggestion)")
        }
        if option.value == nil {
            guard equals == nil else { throw .init(.usage, "--\(option.name) takes no value") }
            try store(option, HostPath(""))
        } else if let equals {
            if option.isPrivate { privateTexts.append((rest.startIndex - 1, equals + 1)) }
            try store(option, HostPath(bytes: text[(equals + 1)...]))
        } else {
            guard let value = rest.popFirst() else { throw .init(.usage, "--\(option.name) needs a value") }
            if option.isPrivate { privateTexts.append((rest.startIndex - 1, 0)) }
            try store(option, value)
        }
    }

    private mutating func takeLetters(
        _ letters: ArraySlice<UInt8>, _ known: [Option], _ rest: inout ArraySlice<HostPath>
    ) throws(CommandFailure) {
        var letters = letters
        while let letter = letters.popFirst() {
            let character = Character(Unicode.Scalar(letter))
            guard let option = known.first(where: { $0.letter == character }) else {
                let cases = known.compactMap(\.letter).filter { $0.lowercased() == character.lowercased() }
                let names = known.filter { $0.help != nil && $0.name.first == character }.map { "-\($0.name)" }
                let meant = cases.first.map { "\($0)" } ?? (names.count == 1 ? names[0] : nil)
                let suggestion = meant.map { " (did you mean -\($0)?)" } ?? ""
                throw .init(.usage, "unknown option -\(HostPath(bytes: [letter]))\(suggestion)")
            }
            if option.value == nil {
                try store(option, HostPath(""))
            } else if !letters.isEmpty {
                return try store(option, HostPath(bytes: letters))
            } else {
                guard let value = rest.popFirst() else { throw .init(.usage, "-\(character) needs a value") }
                return try store(option, value)
            }
        }
    }

    private mutating func store(_ option: Option, _ value: HostPath) throws(CommandFailure) {
        if option.value != nil, !option.repeats, values[option.name] != nil {
            throw .init(.usage, "--\(option.name) is given twice")
        }
        values[option.name, default: []].append(value)
    }

    /// Refuses too few operands, too many, and empty ones. Where several paths may be given, the command reports an empty one
    /// and goes on with the others.
    package func check(_ wanted: [Operand]) throws(CommandFailure) {
        let required = wanted.filter { !$0.isOptional }
        if operands.count < required.count {
            throw .init(.usage, "\(required[operands.count].value.name) is missing")
        }
        if operands.count > wanted.count, wanted.last?.repeats != true {
            throw .init(.usage, "too many arguments: \"\(operands[wanted.count])\"")
        }
        for (operand, one) in zip(operands, wanted) where operand.bytes.isEmpty && !one.repeats {
            throw .init(.usage, "\(one.value.name) is empty")
        }
    }
}
