// Tests the table of seen versions: what it keeps, and what it does when its file is torn, damaged, lost or cannot be written.

import BackingStore
import HostSystem
import Keybag
import MemoryStore
import Testing
import VolumeFormat

@testable import KeyFiles

@Suite struct SeenVersionsTests {
    private static let volume = VolumeID(InlineArray { UInt8($0 + 1) })

    /// The state directory of a machine.
    private final class Machine: Sendable {
        let states = MemoryStore()
        let faults = Lock<[SeenTableFault]>([])
        var name: EntryName { BackingName.known(Array("\(volume).seen".utf8)) }
        var store: StateFileStore { StateFileStore(directory: states.root, volumeID: volume) }

        func open(isWritable: Bool = true, isExpected: Bool = true) -> SeenVersions {
            faults.withLock { $0 = [] }
            return store.seenVersions(isWritable: isWritable, isExpected: isExpected) { [faults] fault in
                faults.withLock { $0.append(fault) }
            }
        }

        var file: BackingFile { get throws(Errno) { try states.root.openFile(name, .readWrite) } }

        var bytes: [UInt8] {
            get throws {
                var bytes = [UInt8](repeating: 0, count: Int(try file.status().size))
                var raw = bytes.mutableSpan
                #expect(try file.read(into: &raw, at: 0) == bytes.count)
                return bytes
            }
        }

        func put(_ bytes: [UInt8]) throws {
            let file = try file
            try file.truncate(to: 0)
            try file.write(bytes.span, at: 0)
        }

        var told: [SeenTableFault] { faults.withLock { $0 } }
    }

    private func id(_ number: UInt8) -> ObjectID { ObjectID(InlineArray { $0 == 0 ? number : 7 }) }

    @discardableResult
    private func learn(_ seen: SeenVersions, _ number: UInt8, _ version: UInt32) -> UInt32? {
        seen.compare(id(number), version, isSettled: true, toleratesOlder: false)
    }

    /// A machine that has learnt the versions 101, 102, 103 of the files 1, 2, 3.
    private func machine() -> Machine {
        let machine = Machine()
        let seen = machine.open(isExpected: false)
        for number in UInt8(1)...3 { #expect(learn(seen, number, 100 + UInt32(number)) == nil) }
        seen.settle()
        #expect(machine.told.isEmpty)
        return machine
    }

    @Test func anOlderVersionIsNamed() {
        let machine = machine()
        let seen = machine.open()
        #expect(learn(seen, 1, 101) == nil)
        #expect(learn(seen, 2, 90) == 102)
        #expect(learn(seen, 3, 110) == nil)
        #expect(learn(seen, 4, 5) == nil, "what is not known is learnt")
        // It stays older.
        #expect(learn(seen, 2, 101) == 102)
        seen.settle()
        let again = machine.open(isWritable: false)
        #expect((1...4).map { again.version(of: id($0)) } == [101, 102, 110, 5])
        #expect(machine.told.isEmpty)
    }

    /// What is not durable in the store is not in the table.
    @Test func onlyWhatIsDurableIsKept() {
        let machine = machine()
        let seen = machine.open()
        seen.wrote(id(1), 200)
        seen.wrote(id(2), 200)
        #expect(learn(seen, 1, 101) == 200, "this mount knows it")
        seen.synced(id(2), 200)
        #expect(seen.compare(id(3), 300, isSettled: false, toleratesOlder: false) == nil)
        // The power is cut.
        let again = machine.open()
        #expect((1...3).map { again.version(of: id($0)) } == [101, 200, 103])
        again.wrote(id(1), 300)
        again.settle()
        #expect(machine.open().version(of: id(1)) == 300)
    }

    @Test func aCrashExplainsAnOlderVersion() {
        let machine = machine()
        let seen = machine.open()
        #expect(seen.compare(id(1), 50, isSettled: false, toleratesOlder: true) == nil)
        #expect(seen.version(of: id(1)) == nil)
        seen.settle()
        #expect(learn(machine.open(), 1, 50) == nil)
    }

    @Test func whatIsForgottenOrAcceptedIsLearntAnew() throws {
        let machine = machine()
        let seen = machine.open()
        seen.forget(id(1))
        try seen.accept(id(2))
        var again = machine.open()
        #expect((1...3).map { again.version(of: id($0)) } == [nil, nil, 103])
        try again.accept(nil)
        again = machine.open()
        #expect(again.isEmpty && machine.told.isEmpty)
        #expect(throws: Errno.EROFS) { try machine.open(isWritable: false).accept(nil) }
    }

    /// A power cut may tear the last entries. The table then knows less, and says nothing else.
    @Test func aTornEndIsPassedOver() throws {
        let machine = machine()
        let whole = try machine.bytes
        #expect(whole.count == 32 + 3 * 16)
        for length in 0..<whole.count {
            try machine.put(Array(whole.prefix(length)))
            let seen = machine.open()
            let known = (1...3).map { seen.version(of: id($0)) }
            #expect(known.filter { $0 != nil }.count == max(length - 32, 0) / 16)
            #expect(zip(known, [101, 102, 103]).allSatisfy { $0 == nil || $0 == $1 })
            #expect(machine.told == (length < 32 ? [.damaged] : []), "\(length)")
            // What is appended then is found.
            learn(seen, 9, 900)
            seen.settle()
            #expect(machine.open().version(of: id(9)) == 900 && machine.told.isEmpty, "\(length)")
        }
        try machine.put(whole + [UInt8](repeating: 0, count: 100))
        #expect(machine.open().version(of: id(3)) == 103 && machine.told.isEmpty)
    }

    @Test func everyChangedByteIsNoticed() throws {
        let machine = machine()
        let whole = try machine.bytes
        for place in whole.indices {
            var changed = whole
            changed[place] ^= 0x10
            try machine.put(changed)
            let seen = machine.open()
            let known = (1...3).compactMap { seen.version(of: id($0)) }
            #expect(known.count == (place < 32 ? 0 : 2) && Set(known).isSubset(of: [101, 102, 103]), "\(place)")
            #expect(machine.told == (place < whole.count - 16 ? [.damaged] : []), "\(place)")
        }
    }

    @Test func oneThatIsTooLongIsNotRead() throws {
        let machine = machine()
        try machine.file.truncate(to: UInt64(SeenTable.greatestLength) + 1)
        #expect(machine.open().isEmpty && machine.told == [.damaged])
        try machine.file.truncate(to: 1 << 50)
        #expect(machine.open().isEmpty && machine.told == [.damaged])
    }

    @Test func aLostOneIsSaidOnce() throws {
        let machine = machine()
        try machine.states.root.unlink(machine.name)
        let seen = machine.open()
        #expect(seen.isEmpty && machine.told == [.missing])
        seen.settle()
        #expect(machine.open().isEmpty && machine.told.isEmpty)
        // A mount that writes nothing makes none.
        try machine.states.root.unlink(machine.name)
        let reading = machine.open(isWritable: false)
        learn(reading, 1, 5)
        reading.settle()
        #expect(throws: Errno.ENOENT) { try machine.file }
    }

    /// A full disk stops nothing. What this mount sees is compared all the same.
    @Test func aFullDiskStopsNothing() {
        let machine = machine()
        let seen = machine.open()
        machine.states.fail(.write, with: .ENOSPC)
        seen.wrote(id(1), 300)
        seen.synced(id(1), 300)
        #expect(machine.told.isEmpty, "it is tried again")
        #expect(learn(seen, 1, 101) == 300)
        machine.states.fail(.write, with: .ENOSPC)
        seen.settle()
        #expect(machine.told == [.failed(.ENOSPC)])
        learn(seen, 2, 500)
        #expect(learn(seen, 2, 102) == 500)
        machine.states.clearFaults()
        // What it said is still true.
        #expect(machine.open().version(of: id(1)) == 101)
    }

    /// A table that says more than is true is removed.
    @Test func oneThatCannotBeLoweredIsRemoved() {
        let machine = machine()
        let seen = machine.open()
        machine.states.fail(.write, with: .EIO)
        seen.forget(id(1))
        seen.settle()
        #expect(machine.told == [.failed(.EIO)])
        machine.states.clearFaults()
        #expect(throws: Errno.ENOENT) { try machine.file }
    }

    @Test func aLongTableIsWrittenAnew() throws {
        let machine = machine()
        let seen = machine.open()
        for version in UInt32(200)..<5000 {
            seen.wrote(id(1), version)
            seen.synced(id(1), version)
        }
        #expect(try machine.bytes.count > 16 * 4800)
        seen.settle()
        #expect(try machine.bytes.count == 32 + 3 * 16)
        #expect(machine.open().version(of: id(1)) == 4999)
    }

    /// A mount that has written many files leaves a table in ascending order, which is read without being sorted.
    @Test func manyNewFilesAreWrittenInOrder() throws {
        let machine = machine()
        let seen = machine.open()
        for number in UInt16(0)..<6000 {
            // No order: the last bytes of a name count most.
            seen.wrote(ObjectID(InlineArray { UInt8(truncatingIfNeeded: $0 == 7 ? number : number >> 8) }), 7)
        }
        seen.settle()
        let bytes = try machine.bytes
        let keys = stride(from: SeenTable.headerLength, to: bytes.count, by: SeenTable.entryLength).map {
            bytes.span.littleEndian(at: $0) as UInt64
        }
        #expect(keys.count == 6003 && keys == keys.sorted())
        let again = machine.open()
        #expect((1...3).map { again.version(of: id($0)) } == [101, 102, 103] && machine.told.isEmpty)
    }

    @Test(arguments: [0, 1, 2]) func aMapAnswersAsADictionary(_ seed: UInt64) {
        var (map, reference): (VersionMap, [UInt64: UInt32]) = (VersionMap(), [:])
        var random = seed
        for step in 0..<60_000 {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let key = random >> (seed == 0 ? 52 : 33)
            let version = UInt32(truncatingIfNeeded: random >> 20) % 3 * UInt32(step)
            map[key] = version
            reference[key] = version == 0 ? nil : version
        }
        #expect(map.count == reference.count && reference.allSatisfy { map[$0.key] == $0.value })
        #expect((UInt64(0)..<4096).allSatisfy { map[$0] == reference[$0] ?? 0 })
        var keys: [UInt64] = []
        map.forEach { key, version in
            keys.append(key)
            #expect(reference[key] == version)
        }
        #expect(keys == reference.keys.sorted())
    }

    /// The number of a state file may be given to another store.
    @Test func aNewStateFileBeginsWithout() throws {
        let machine = machine()
        let state = StateFile(unpinned: Self.volume, above: [])
        try machine.store.update { $0 = state }
        #expect(throws: Errno.ENOENT) { try machine.file }
        let seen = machine.open()
        learn(seen, 1, 5)
        seen.settle()
        try machine.store.update { $0?.layout.toleratesEverything = false }
        #expect(machine.open().version(of: id(1)) == 5)
        let copy = StateFileStore(directory: machine.states.root, volumeID: Self.volume, number: 2)
        #expect(copy.seenVersions(isWritable: true, isExpected: false).isEmpty)
    }
}
