// Every cell of the two tables of semantics.

import Testing
import VolumeFormat

@Suite struct AccessTests {
    /// Letters of the classes that allow each operation (with a handle that was open before), by state.
    static let table: [(Operation, beforeFirstUnlock: String, locking: String, locked: String)] = [
        (.open, "D", "CD", "CD"),
        (.create, "BD", "BCD", "BCD"),
        (.read, "BD", "BCD", "BCD"),
        (.write, "BD", "BCD", "BCD"),
        (.writeBack, "BD", "ABCD", "BCD"),
        (.touchMapped, "BD", "BCD", "BCD"),
        (.truncatePath, "D", "CD", "CD"),
        (.handleSize, "BD", "BCD", "BCD"),
        (.copySource, "BD", "BCD", "BCD"),
        (.copyDestination, "BD", "BCD", "BCD"),
        (.replay, "ABCD", "ABCD", "ABCD"),
        (.other, "ABCD", "ABCD", "ABCD"),
    ]

    @Test func everyCell() {
        #expect(Self.table.count == Operation.allCases.count)
        for row in Self.table {
            for protectionClass in ProtectionClass.allCases {
                let letter = protectionClass.letter
                let expected: [(VolumeState, Bool)] = [
                    (.unlocked, true), (.beforeFirstUnlock, row.beforeFirstUnlock.contains(letter)),
                    (.locking, row.locking.contains(letter)), (.locked, row.locked.contains(letter)),
                    (.sweeping, row.locked.contains(letter)),
                ]
                for (state, allowed) in expected {
                    #expect(
                        Access.isAllowed(row.0, class: protectionClass, state: state) == allowed,
                        "\(row.0) of \(letter) in \(state)")
                }
            }
        }
    }

    @Test func withoutHandleJudgedAsOpen() {
        for operation in Operation.allCases where ![.create, .replay, .other].contains(operation) {
            for protectionClass in ProtectionClass.allCases {
                for state in VolumeState.allCases where operation != .writeBack || state != .locking {
                    #expect(
                        Access.isAllowed(operation, class: protectionClass, state: state, handleOpen: false)
                            == Access.isAllowed(.open, class: protectionClass, state: state))
                }
            }
        }
    }

    /// Rows: from; columns: to, in the order D C B A.
    static let changes: [(from: ProtectionClass, beforeFirstUnlock: [Bool], locked: [Bool])] = [
        (.none, [true, false, true, false], [true, true, true, false]),
        (.completeUntilFirstUserAuthentication, [false, true, false, false], [true, true, true, false]),
        (.completeUnlessOpen, [false, false, true, false], [false, false, true, false]),
        (.complete, [false, false, false, true], [false, false, false, true]),
    ]

    @Test func everyChange() {
        let columns: [ProtectionClass] = [
            .none, .completeUntilFirstUserAuthentication, .completeUnlessOpen, .complete,
        ]
        for row in Self.changes {
            for (column, to) in columns.enumerated() {
                #expect(ClassChange.isAllowed(from: row.from, to: to, state: .unlocked))
                #expect(
                    ClassChange.isAllowed(from: row.from, to: to, state: .beforeFirstUnlock)
                        == row.beforeFirstUnlock[column], "\(row.from) to \(to)")
                for state in [VolumeState.locking, .locked] {
                    #expect(
                        ClassChange.isAllowed(from: row.from, to: to, state: state) == row.locked[column],
                        "\(row.from) to \(to)")
                }
                #expect(ClassChange.isTightening(from: row.from, to: to) == (to.rawValue < row.from.rawValue))
            }
        }
    }

    @Test func namesOfClasses() {
        let spellings: [(String, ProtectionClass)] = [
            ("complete", .complete), ("A", .complete), ("a", .complete), ("NSFileProtectionComplete", .complete),
            ("completeUnlessOpen", .completeUnlessOpen), ("unless-open", .completeUnlessOpen),
            ("b", .completeUnlessOpen), ("NSFileProtectionCompleteUnlessOpen", .completeUnlessOpen),
            ("completeUntilFirstUserAuthentication", .completeUntilFirstUserAuthentication),
            ("until-first-unlock", .completeUntilFirstUserAuthentication),
            ("C", .completeUntilFirstUserAuthentication),
            (
                "NSFileProtectionCompleteUntilFirstUserAuthentication", .completeUntilFirstUserAuthentication
            ), ("none", .none), ("d", .none), ("NSFileProtectionNone", .none),
        ]
        for (text, expected) in spellings { #expect(ProtectionClass(name: text) == expected) }
        for text in ["", "complete\n", "complete\0", "Complete", "E", "nsfileprotectionnone", "A "] {
            let bytes = Array(text.utf8)
            #expect(ProtectionClass.request(bytes.span) == .invalid)
        }
        let reserved = Array("NSFileProtectionCompleteWhenUserInactive".utf8)
        #expect(ProtectionClass.request(reserved.span) == .reserved)
        #expect(ProtectionClass.allCases.map(\.letter) == ["A", "B", "C", "D"])
        #expect(ProtectionClass.completeUnlessOpen.canonicalName == "completeUnlessOpen")
        #expect(ProtectionClass.completeUnlessOpen.shortName == "unless-open")
        #expect(ProtectionClass.complete.isStronger(than: .none) && !ProtectionClass.none.isStronger(than: .none))
    }
}
