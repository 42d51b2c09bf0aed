// Splits a Swift file into tokens, without its comments and string literals.

/// A token of a file, as far as imports need it.
struct Token: Equatable {
    enum Kind: Equatable {
        /// A name or keyword.
        case word(String)
        /// A name in backticks, which is never a keyword.
        case quoted(String)
        /// Any other byte.
        case mark(UInt8)
        /// `#if`, `#elseif`, `#else` or `#endif`, with the rest of its line.
        case directive(String, String)
    }

    let kind: Kind
    let line: Int
}

/// The tokens and comments of a file.
struct SourceTokens {
    private let bytes: [UInt8]
    private var place = 0
    private var line = 1
    /// All tokens except comments and literals, in order.
    private(set) var tokens: [Token] = []
    /// The texts of `//` comments, with their line numbers.
    private(set) var comments: [(text: String, line: Int)] = []
    /// The first line of a comment or multi-line literal that has no end.
    private(set) var unended: Int?

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        scan()
    }

    private func peek(_ offset: Int = 0) -> UInt8? {
        place + offset < bytes.count ? bytes[place + offset] : nil
    }

    private func sees(_ text: StaticString, at offset: Int = 0) -> Bool {
        let count = text.utf8CodeUnitCount
        guard place + offset + count <= bytes.count else { return false }
        return text.description.utf8.elementsEqual(bytes[(place + offset)..<(place + offset + count)])
    }

    /// Moves forward by one byte and counts lines.
    private mutating func step() {
        if bytes[place] == UInt8(ascii: "\n") { line += 1 }
        place += 1
    }

    private mutating func step(_ count: Int) { for _ in 0..<count where place < bytes.count { step() } }

    private mutating func scan() {
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): step()
            case UInt8(ascii: "/") where sees("//"):
                let start = line
                comments.append((restOfLine(after: 2), start))
            case UInt8(ascii: "/") where sees("/*"): skipComment()
            case UInt8(ascii: "\""): skipLiteral(hashes: 0)
            case UInt8(ascii: "#"): hash()
            case UInt8(ascii: "`"):
                step()
                let name = word(until: { $0 == UInt8(ascii: "`") || $0 == UInt8(ascii: "\n") })
                tokens.append(Token(kind: .quoted(name), line: line))
                if peek() == UInt8(ascii: "`") { step() }
            case _ where Self.isPartOfWord(byte):
                tokens.append(Token(kind: .word(word(until: { !Self.isPartOfWord($0) })), line: line))
            default:
                tokens.append(Token(kind: .mark(byte), line: line))
                step()
            }
        }
    }

    private static func isPartOfWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }

    private mutating func word(until isEnd: (UInt8) -> Bool) -> String {
        let start = place
        while let byte = peek(), !isEnd(byte) { step() }
        return String(decoding: bytes[start..<place], as: UTF8.self)
    }

    private mutating func restOfLine(after count: Int) -> String {
        step(count)
        return word(until: { $0 == UInt8(ascii: "\n") })
    }

    /// Skips a comment of several lines. Comments can be nested.
    private mutating func skipComment() {
        let start = line
        var depth = 0
        repeat {
            if sees("/*") {
                depth += 1
                step(2)
            } else if sees("*/") {
                depth -= 1
                step(2)
            } else if peek() == nil {
                unended = unended ?? start
                return
            } else {
                step()
            }
        } while depth > 0
    }

    /// Reads a token that begins with `#`: a directive, a raw string, a regular expression or a macro.
    private mutating func hash() {
        var hashes = 0
        while peek(hashes) == UInt8(ascii: "#") { hashes += 1 }
        switch peek(hashes) {
        case UInt8(ascii: "\""):
            step(hashes)
            return skipLiteral(hashes: hashes)
        case UInt8(ascii: "/"):
            step(hashes)
            return skipExpression(hashes: hashes)
        default: break
        }
        let start = line
        step(hashes)
        let name = word(until: { !Self.isPartOfWord($0) })
        guard ["if", "elseif", "else", "endif"].contains(name) else {
            return tokens.append(Token(kind: .mark(UInt8(ascii: "#")), line: start))
        }
        var condition = ""
        while let byte = peek(), byte != UInt8(ascii: "\n"), !sees("//") {
            if sees("/*") {
                skipComment()
                continue
            }
            condition.unicodeScalars.append(Unicode.Scalar(byte))
            step()
        }
        tokens.append(Token(kind: .directive(name, condition), line: start))
    }

    private func ends(_ hashes: Int, after offset: Int) -> Bool {
        (0..<hashes).allSatisfy { peek(offset + $0) == UInt8(ascii: "#") }
    }

    /// Skips a regular expression `#/…/#`, which may have several lines.
    private mutating func skipExpression(hashes: Int) {
        let start = line
        step()
        while peek() != nil {
            if peek() == UInt8(ascii: "/"), ends(hashes, after: 1) { return step(1 + hashes) }
            step(peek() == UInt8(ascii: "\\") ? 2 : 1)
        }
        unended = unended ?? start
    }

    /// Skips a string literal from its quotation mark on. A single-line literal ends at the end of its line at the
    /// latest.
    private mutating func skipLiteral(hashes: Int) {
        let start = line
        let isLong = sees("\"\"\"")
        step(isLong ? 3 : 1)
        while let byte = peek() {
            if byte == UInt8(ascii: "\n"), !isLong { return }
            if isLong ? sees("\"\"\"") : byte == UInt8(ascii: "\""), ends(hashes, after: isLong ? 3 : 1) {
                return step((isLong ? 3 : 1) + hashes)
            }
            guard byte == UInt8(ascii: "\\"), ends(hashes, after: 1) else {
                step()
                continue
            }
            step(1 + hashes)
            if peek() == UInt8(ascii: "(") { skipInterpolation() } else if peek() != UInt8(ascii: "\n") { step(1) }
        }
        unended = unended ?? start
    }

    /// Skips an interpolation in a literal, from its opening to its closing parenthesis.
    private mutating func skipInterpolation() {
        var depth = 0
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "("): depth += 1
            case UInt8(ascii: ")"): depth -= 1
            case UInt8(ascii: "\""):
                skipLiteral(hashes: 0)
                continue
            case UInt8(ascii: "#"):
                var hashes = 0
                while peek(hashes) == UInt8(ascii: "#") { hashes += 1 }
                step(hashes)
                if peek() == UInt8(ascii: "\"") { skipLiteral(hashes: hashes) }
                continue
            case UInt8(ascii: "/") where sees("/*"):
                skipComment()
                continue
            default: break
            }
            step()
            if depth == 0 { return }
        }
    }
}
