// The table of derived names, against names as real programs make them.

import Testing
import VolumeFormat

@Suite struct NameFamilyTests {
    /// A name and the name that it is derived from.
    static let examples: [(String, [String])] = [
        ("diary.txt~", ["diary.txt"]), ("#diary.txt#", ["diary.txt"]), (".#diary.txt", ["diary.txt"]),
        ("diary.txt.~12~", ["diary.txt"]), (".diary.txt.swp", ["diary.txt"]), (".diary.txt.swo", ["diary.txt"]),
        (".diary.txt.swx", ["diary.txt"]), (".diary.txt.saa", ["diary.txt"]),
        (".bashrc.swp", ["bashrc", ".bashrc"]), (".diary.txt.un~", ["diary.txt"]),
        (".diary.txt.kate-swp", ["diary.txt"]), (".~lock.diary.odt#", ["diary.odt"]), ("~$diary.doc", ["diary.doc"]),
        ("notes.db-journal", ["notes.db"]), ("notes.db-wal", ["notes.db"]), ("notes.db-shm", ["notes.db"]),
        ("notes.db-mj0A1B2C9D4", ["notes.db"]), (".diary.txt.Ab3dEf", ["diary.txt"]),
        (".bashrc.Ab3dEf", ["bashrc", ".bashrc"]), ("diary.txt.Ab3dEf", ["diary.txt"]),
        ("diary.txt.oAb3dEf", ["diary.txt"]), (".#diary0123456789abcdef", ["diary"]),
        ("diary.txt.bak", ["diary.txt"]), ("diary.txt.orig", ["diary.txt"]), ("diary.txt.tmp", ["diary.txt"]),
        (".diary.txt.tmp", ["diary.txt"]), ("diary.txt.part", ["diary.txt"]), ("config.lock", ["config"]),
        ("x~", ["x"]), ("~", []), ("##", []), (".swp", []), (".tmp", []), ("-wal", []), (".~1~", [".~1"]),
        ("..swp", []),
        ("diary.txt", []), ("a", []), ("", []), (".", []), ("..", []), ("diary.txt.~~", ["diary.txt.~"]),
        ("README", []),
        ("photo-0001.jpg", []), ("diary.txt.Ab3d-f", []), ("notes.db-mjXYZ", []), (".profile", []), ("4913", []),
        ("sedAb3dEf", []), ("lu12345.tmp", ["lu12345"]), (".goutputstream-Ab3dEf", []),
    ]

    private func derivation(_ name: String) -> NameFamily.Derivation {
        let bytes = Array(name.utf8)
        return NameFamily.derivation(of: bytes.span)
    }

    private func sources(_ name: String) -> Set<String> {
        let bytes = Array(name.utf8)
        return Set(derivation(name).sources.map { String(decoding: bytes[$0], as: UTF8.self) })
    }

    private func roots(_ name: String) -> Set<String> {
        let bytes = Array(name.utf8)
        return Set(derivation(name).roots.map { String(decoding: bytes[$0], as: UTF8.self) })
    }

    @Test func names() {
        for (name, wanted) in Self.examples {
            let found = sources(name)
            #expect(found.isSuperset(of: wanted), "\(name): \(found)")
            #expect(!wanted.isEmpty || found.isEmpty, "\(name): \(found)")
            #expect(derivation(name).patterns.isEmpty == derivation(name).roots.isEmpty, "\(name)")
            #expect(found.isSuperset(of: roots(name)), "\(name)")
        }
    }

    /// A derived name leads back to its base name, through the pattern that made it.
    @Test func derivedLeadsBack() {
        for name in ["diary.txt", ".bashrc", "x", "~", "#", "-wal", String(repeating: "n", count: 250)] {
            let bytes = Array(name.utf8)
            let all = NameFamily.derived(from: bytes.span, by: .all)
            #expect(all.count > (bytes.count < 200 ? 20 : 2))
            for derived in all {
                let text = String(decoding: derived, as: UTF8.self)
                #expect(derived.count <= NameLimits.longest)
                #expect(sources(text).contains(name) && roots(text).contains(name), "\(text)")
                let again = NameFamily.derived(from: bytes.span, by: derivation(text).patterns)
                #expect(again.contains(derived), "\(text)")
            }
        }
        #expect(NameFamily.derived(from: Array("diary.txt".utf8).span, by: []).isEmpty)
        // What is variable is found from the derived name alone.
        #expect(roots(".diary.txt.Ab3dEf").isEmpty && roots("diary.txt~") == ["diary.txt"])
    }

    /// Any bytes: no source is empty or the name itself.
    @Test func anyBytes() {
        var generator = SystemRandomNumberGenerator()
        let letters = Array("~#.-$swpxaf09_\u{e4}".utf8)
        for _ in 0..<20000 {
            let name = (0..<Int.random(in: 0...14, using: &generator)).map { _ in letters.randomElement()! }
            for source in NameFamily.derivation(of: name.span).sources {
                #expect(!source.isEmpty && source.count < name.count, "\(name)")
            }
        }
    }
}
