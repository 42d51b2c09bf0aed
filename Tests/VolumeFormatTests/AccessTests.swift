// Every cell of the two tables of semantics.

import Testing
import VolumeFormat

@Suite struct AccessTests {
    /// Letters of the classes that allow each operation (with a handle that was open before), by the state that they obey. Class 7
    /// is in these states some time after the volume.
    static let table: [(Operation, beforeFirstUnlock: String, locking: String, locked: String)] = [
        (.open, "D", "CD", "CD"),
        (.create, "BD", "BCD", "BCD"),
        (.read, "BD", "BCD", "BCD"),
        (.write, "BD", "BCD", "BCD"),
        (.writeBack, "BD", "A7BCD", "BCD"),
        (.touchMapped, "BD", "BCD", "BCD"),
        (.truncatePath, "D", "CD", "CD"),
        (.handleSize, "BD", "BCD", "BCD"),
        (.copySource, "BD", "BCD", "BCD"),
        (.copyDestination, "BD", "BCD", "BCD"),
        (.replay, "A7BCD", "A7BCD", "A7BCD"),
        (.other, "A7BCD", "A7BCD", "A7BCD"),
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

    /// From the weakest to the strongest: the class, and the letters of those to which it may change before the first unlock, in
    /// a locked volume while class 7 is open, and when it is closed.
    static let changes: [(from: ProtectionClass, beforeFirstUnlock: String, locked: String, closed: String)] = [
        (.none, "DB", "DC7B", "DCB"), (.completeUntilFirstUserAuthentication, "C", "DC7B", "DCB"),
        (.completeWhenUserInactive, "7", "DC7B", "7"), (.completeUnlessOpen, "B", "B", "B"), (.complete, "A", "A", "A"),
    ]

    @Test func everyChange() {
        #expect(Self.changes.count == ProtectionClass.allCases.count)
        for (number, row) in Self.changes.enumerated() {
            for (other, to) in Self.changes.map(\.from).enumerated() {
                var cases = [(VolumeStates(.unlocked), true)]
                cases.append((VolumeStates(.beforeFirstUnlock), row.beforeFirstUnlock.contains(to.letter)))
                for volume in [VolumeState.locking, .locked, .sweeping] {
                    cases.append((.init(volume: volume, inactive: .unlocked), row.locked.contains(to.letter)))
                    for inactive in [VolumeState.locking, .locked, .sweeping] {
                        cases.append((.init(volume: volume, inactive: inactive), row.closed.contains(to.letter)))
                    }
                }
                for (states, isAllowed) in cases {
                    #expect(
                        ClassChange.isAllowed(from: row.from, to: to, states: states) == isAllowed,
                        "\(row.from) to \(to) in \(states)")
                }
                #expect(ClassChange.isTightening(from: row.from, to: to) == (other > number))
            }
        }
    }

    @Test func classSevenHasItsOwnState() {
        let states = VolumeStates(volume: .locked, inactive: .unlocked)
        for known in ProtectionClass.allCases {
            #expect(states[known] == (known == .completeWhenUserInactive ? .unlocked : .locked))
            #expect(VolumeStates(.sweeping)[known] == .sweeping)
            #expect(known.cutsOffHandles == "A7".contains(known.letter))
        }
    }

    @Test func namesOfClasses() {
        let spellings: [(String, ProtectionClass)] = [
            ("complete", .complete), ("A", .complete), ("a", .complete), ("NSFileProtectionComplete", .complete),
            ("completeUnlessOpen", .completeUnlessOpen), ("unless-open", .completeUnlessOpen),
            ("7", .completeWhenUserInactive), ("completeWhenUserInactive", .completeWhenUserInactive),
            ("when-inactive", .completeWhenUserInactive),
            ("NSFileProtectionCompleteWhenUserInactive", .completeWhenUserInactive),
            ("b", .completeUnlessOpen), ("NSFileProtectionCompleteUnlessOpen", .completeUnlessOpen),
            ("completeUntilFirstUserAuthentication", .completeUntilFirstUserAuthentication),
            ("until-first-unlock", .completeUntilFirstUserAuthentication),
            ("C", .completeUntilFirstUserAuthentication),
            (
                "NSFileProtectionCompleteUntilFirstUserAuthentication", .completeUntilFirstUserAuthentication
            ), ("none", .none), ("d", .none), ("NSFileProtectionNone", .none),
        ]
        for (text, expected) in spellings { #expect(ProtectionClass(name: text) == expected) }
        for text in ["", "complete\n", "complete\0", "Complete", "E", "G", "g", "3", "nsfileprotectionnone", "A "] {
            let bytes = Array(text.utf8)
            #expect(ProtectionClass.request(bytes.span) == .invalid)
        }
        #expect(ProtectionClass.allCases.map(\.letter) == ["A", "B", "7", "C", "D"])
        #expect(ProtectionClass.allCases.map(\.rawValue) == [1, 2, 7, 3, 4])
        #expect(ProtectionClass.completeUnlessOpen.canonicalName == "completeUnlessOpen")
        #expect(ProtectionClass.completeUnlessOpen.shortName == "unless-open")
        #expect(ProtectionClass.complete.isStronger(than: .none) && !ProtectionClass.none.isStronger(than: .none))
    }
}
