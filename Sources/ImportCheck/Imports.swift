// Finds the import declarations of a Swift file and the `#if` branches around them.

/// One import declaration.
struct Import {
    /// The module, without submodules.
    let module: String
    /// The imported declaration; nil if the whole module is imported.
    let declaration: String?
    let line: Int
    /// The number of each `#if` around the import, and the number of the branch.
    let branches: [Int: Int]

    /// Whether one build can contain both imports.
    func canStandBeside(_ other: Import) -> Bool {
        branches.allSatisfy { number, branch in other.branches[number, default: branch] == branch }
    }
}

extension SourceTokens {
    /// The imports that a build on Linux can contain.
    var imports: [Import] {
        var found: [Import] = []
        var open: [Branch] = []
        var count = 0
        for (index, token) in tokens.enumerated() {
            switch token.kind {
            case .directive("if", let text):
                open.append(Branch(number: count, Condition.value(text)))
                count += 1
            case .directive("endif", _): _ = open.popLast()
            case .directive(let word, let text):
                guard let last = open.indices.last else { continue }
                open[last].next(word == "else" ? true : Condition.value(text))
            case .word("import"):
                guard !open.contains(where: { $0.isTaken == false }), let (module, declaration) = path(after: index)
                else { continue }
                let branches = Dictionary(uniqueKeysWithValues: open.map { ($0.number, $0.index) })
                found.append(Import(module: module, declaration: declaration, line: token.line, branches: branches))
            default: continue
            }
        }
        return found
    }

    /// The current branch of an `#if`.
    private struct Branch {
        let number: Int
        var index = 0
        /// Whether the branch is compiled; nil if it depends on the build.
        var isTaken: Bool?
        /// Whether the condition of this branch or of an earlier one is true; nil if it depends on the build.
        private var holds: Bool?

        init(number: Int, _ condition: Bool?) {
            self.number = number
            (isTaken, holds) = (condition, condition)
        }

        mutating func next(_ condition: Bool?) {
            index += 1
            isTaken = holds == true || condition == false ? false : holds == false && condition == true ? true : nil
            holds = holds == true || condition == true ? true : holds == false && condition == false ? false : nil
        }
    }

    private static let kinds: Set<String> = [
        "typealias", "struct", "class", "enum", "protocol", "let", "var", "func",
    ]

    private func name(_ index: Int) -> String? {
        guard index < tokens.count else { return nil }
        return switch tokens[index].kind {
        case .word(let name), .quoted(let name): name
        case .mark, .directive: nil
        }
    }

    /// The module and declaration of the import at `index`; nil if the word is a member or a label.
    private func path(after index: Int) -> (module: String, declaration: String?)? {
        if index > 0, case .mark(let before) = tokens[index - 1].kind,
            [UInt8(ascii: "."), UInt8(ascii: "("), UInt8(ascii: ",")].contains(before)
        {
            return nil
        }
        var next = index + 1
        var isScoped = false
        if next < tokens.count, case .word(let kind) = tokens[next].kind, Self.kinds.contains(kind) {
            isScoped = true
            next += 1
        }
        guard let module = name(next) else { return nil }
        var last: String?
        while next + 2 < tokens.count, tokens[next + 1].kind == .mark(UInt8(ascii: ".")), let part = name(next + 2) {
            last = part
            next += 2
        }
        return (module, isScoped ? last : nil)
    }
}
