// Finds the files of a program in which Foundation's own calls win, so that protection classes do nothing.

/// Something that is not as it should be, on one line of a file.
package struct ImportFinding: Equatable, Sendable, CustomStringConvertible {
    /// The line, from 1.
    package let line: Int
    /// What is wrong, and what to do.
    package let description: String
}

/// What a file says of its imports.
package struct ImportCheck: Sendable {
    /// What is wrong with it.
    package private(set) var findings: [ImportFinding] = []
    /// Whether the file imports Foundation and says why.
    package private(set) var isExcepted = false

    /// The comment that excepts a file on purpose; a reason has to follow.
    package static let exception = "protectfs: plain Foundation"

    /// Modules through which Foundation's own members come into a file.
    private static let plain: Set<String> = ["Foundation", "FoundationEssentials", "XCTest"]
    /// Modules of this package that bring FileProtection's.
    private static let protected: Set<String> = ["FileProtection", "UIKitCompat"]
    /// Manifests and plugins: they are no part of the program, and have no other Foundation.
    private static let tools: Set<String> = ["PackageDescription", "PackagePlugin"]

    /// Checks the text of a file.
    package init(_ source: [UInt8]) {
        let tokens = SourceTokens(source)
        if let line = tokens.unended {
            findings.append(ImportFinding(line: line, description: "a comment or literal begins here that has no end"))
        }
        let imports = tokens.imports
        guard !imports.contains(where: { Self.tools.contains($0.module) }) else { return }
        let protecting = imports.filter { Self.protected.contains($0.module) }
        let bypasses = imports.filter { Self.plain.contains($0.module) }
        if !bypasses.isEmpty, let (reason, line) = Self.reason(tokens.comments) {
            isExcepted = !reason.isEmpty
            if !isExcepted {
                findings.append(ImportFinding(line: line, description: "an exception has to say why"))
            }
        }
        guard !isExcepted else { return }
        findings += bypasses.map { found in
            let beside = protecting.first { $0.canStandBeside(found) }
            return ImportFinding(line: found.line, description: Self.text(found, beside: beside?.module))
        }
    }

    private static func reason(_ comments: [(text: String, line: Int)]) -> (String, Int)? {
        for (text, line) in comments {
            let words = text.drop { $0 == " " || $0 == "\t" }
            guard words.hasPrefix(exception) else { continue }
            return (String(words.dropFirst(exception.count).drop { !$0.isLetter && !$0.isNumber }), line)
        }
        return nil
    }

    private static func text(_ found: Import, beside protecting: String?) -> String {
        let module = found.module
        switch (protecting, found.declaration) {
        case (let protecting?, let declaration?):
            return "imports \(module)'s own \(declaration), which hides that of \(protecting): take it away"
        case (let protecting?, nil) where module == "XCTest":
            return "imports XCTest, which exports Foundation, beside \(protecting): calls are ambiguous"
        case (let protecting?, nil):
            return "imports \(module) beside \(protecting): calls are ambiguous; take it away"
        case (nil, _) where module == "XCTest":
            return "imports XCTest, which exports Foundation: protection classes do nothing in this file"
        case (nil, _):
            return "imports \(module) alone: protection classes do nothing in this file; import FileProtection instead"
        }
    }
}
