// The vectors of state files, of their open locks and stores, and of the epochs that are drawn from them.

import Testing
import VolumeFormat

@testable import Keybag

@Suite struct StateVectorsTests {
    let vectors: Vectors

    init() throws {
        vectors = try Vectors()
    }

    /// The fields of the vector's state file, which gives the same bytes again; nil if it must not be read.
    private func layout(_ vector: Vector) -> StateFileLayout? {
        let bytes = vector.hex("state")
        do throws(StateFileDefect) {
            let layout = try StateFile(parsing: bytes).layout
            #expect(!vector.isRefused && !vector.isNewer, "\(vector.comment)")
            #expect(layout.serialized() == bytes, "\(vector.comment)")
            return layout
        } catch {
            if case .newer(_, let writer) = error {
                #expect(vector.isNewer, "\(vector.comment)")
                #expect(!vector.has("writer") || writer == vector.text("writer"), "\(vector.comment)")
            } else {
                #expect(vector.isRefused, "\(vector.comment): \(error)")
            }
            return nil
        }
    }

    @Test func states() throws {
        let entries = vectors.entries("state")
        #expect(entries.count > 40)
        for vector in entries {
            guard let state = layout(vector) else { continue }
            let expected = vector.expected
            #expect(state.serial == expected.number("serial"), "\(vector.comment)")
            #expect(state.isPinned == expected.isTrue("pinned"), "\(vector.comment)")
            #expect(state.toleratesEverything == expected.isTrue("tolerates_all"), "\(vector.comment)")
            #expect(state.openEpochs.map(Int.init) == expected.numbers("open_epochs"), "\(vector.comment)")
            #expect(UInt64(state.highestEpoch) == expected.number("highest_epoch"), "\(vector.comment)")
            #expect((state.readOnlyCompatible != 0) == expected.isTrue("read_only"), "\(vector.comment)")
        }
    }

    @Test func openLocks() throws {
        let entries = vectors.entries("late_state")
        #expect(entries.count > 8)
        for vector in entries {
            guard let state = layout(vector) else { continue }
            let locks = vector.expected.list("open_locks").map {
                StateFileLayout.OpenLock(number: $0.number("number"), done: UInt32($0.number("done")))
            }
            #expect(state.openLocks == locks, "\(vector.comment)")
        }
    }

    @Test func stores() throws {
        let entries = vectors.entries("state_store")
        #expect(entries.count > 10)
        for vector in entries {
            guard let state = layout(vector) else { continue }
            let expected = vector.expected
            let store = StateFileLayout.Store(
                inode: try #require(UInt64(expected.text("inode"), radix: 16)),
                born: (expected.signed("seconds"), UInt32(expected.number("nanoseconds"))),
                fileSystem: try #require(UInt64(expected.text("file_system"), radix: 16)), path: expected.hex("path"))
            #expect(state.store == store, "\(vector.comment)")
        }
    }

    @Test func epochs() throws {
        let entries = vectors.entries("epoch")
        #expect(entries.count > 10)
        for vector in entries {
            let epoch = Epoch.next(after: UInt32(vector.number("highest")), at: vector.signed("seconds"))
            #expect((epoch == nil) == vector.isRefused, "\(vector.comment)")
            if let epoch { #expect(UInt64(epoch) == vector.expectedNumber, "\(vector.comment)") }
        }
    }
}
