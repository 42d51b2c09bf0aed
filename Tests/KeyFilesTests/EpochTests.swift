// Tests the drawing of epochs: they rise, no two mounts of a machine get the same one, and a failure leaves nothing behind.

import BackingStore
import Dispatch
import HostSystem
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import KeyFiles

@Suite struct EpochTests {
    private static let volume = VolumeID(InlineArray { UInt8($0 + 1) })
    private static let day: Int64 = 86_400

    /// A state file in `states`, with a clock that the test sets.
    private final class Machine: Sendable {
        let states = MemoryStore()
        let time = Lock<Int64>(Epoch.origin + 1000 * day)
        /// Another handle of the state file, as another process has.
        var store: StateFileStore {
            StateFileStore(directory: states.root, volumeID: volume) { [time] in time.withLock { $0 } }
        }

        init(highest: UInt32 = 0) throws {
            try store.update { state in
                var made = StateFile(unpinned: volume)
                made.layout.openEpochs = highest == 0 ? [] : [highest]
                state = made
            }
        }

        var layout: StateFileLayout { get throws { try #require(try store.load()).layout } }

        /// A mount of the volume.
        func mount(limit: UInt64 = EpochLog.limit) throws -> EpochLog {
            EpochLog(
                endedBadly: try layout.openEpochs, tolerance: .byEpoch, limit: limit, record: EpochRecord(store))
        }
    }

    @Test func aClockThatGoesBackLowersNoEpoch() throws {
        let machine = try Machine()
        var last: UInt32 = 0
        for (index, step) in [0, 5 * Self.day, -3 * Self.day, 0, .min, 2 * Self.day].enumerated() {
            machine.time.withLock { $0 = step == .min ? 0 : $0 + step }
            let log = try machine.mount()
            let drawn = try log.epoch(encryptions: 1)
            #expect(drawn > last, "\(index)")
            #expect(try machine.layout.openEpochs == [drawn] && machine.layout.highestEpoch == drawn)
            if index == 1 { #expect(drawn == UInt32(1005 * Self.day)) }
            if index == 3 { #expect(drawn == last + 1) }
            last = drawn
            try log.close()
            #expect(try machine.layout.openEpochs.isEmpty && machine.layout.highestEpoch == drawn)
        }
    }

    /// Each draw reads and writes the file in one step.
    @Test func noTwoMountsGetTheSame() throws {
        let machine = try Machine()
        let drawn = Lock<[UInt32]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            do {
                let log = EpochLog(endedBadly: [], tolerance: .byEpoch, limit: 2, record: EpochRecord(machine.store))
                for _ in 0..<20 {
                    let epoch = try log.epoch(encryptions: 2)
                    drawn.withLock { $0.append(epoch) }
                    let suspect = try log.suspect()
                    drawn.withLock { if !$0.contains(suspect) { $0.append(suspect) } }
                }
            } catch { Issue.record("\(error)") }
        }
        let all = drawn.withLock { $0.sorted() }
        #expect(all.count == 8 * 21 && Set(all).count == all.count)
        #expect(try machine.layout.openEpochs.sorted() == all && machine.layout.highestEpoch == all.last)
    }

    @Test func aNewOneAfterTheLimitAndAfterABadEnd() throws {
        let machine = try Machine(highest: 9)
        let log = try machine.mount(limit: 10)
        let first = try log.epoch(encryptions: 10)
        let second = try log.epoch(encryptions: 1)
        log.endBadly()
        let third = try log.epoch(encryptions: 1)
        #expect(9 < first && first < second && second < third)
        #expect(log.own == [third] && log.endedBadly == [9, first, second])
        #expect(try log.suspect(second) == second && log.suspect(third) == 9)
        try log.close()
        #expect(try machine.layout.openEpochs == [9, first, second])
        try log.closeEndedBadly()
        #expect(try machine.layout.openEpochs.isEmpty && machine.layout.highestEpoch == third)
    }

    /// The suspect one is drawn in the same way, and is not the mount's own.
    @Test func aSuspectEpochRisesToo() throws {
        let machine = try Machine()
        let log = try machine.mount()
        let own = try log.epoch(encryptions: 1)
        let suspect = try log.suspect(own)
        #expect(suspect == own + 1 && !log.isOwn(suspect) && log.isSuspect(suspect))
        #expect(try machine.layout.openEpochs == [own, suspect])
        try log.close()
        #expect(try machine.layout.openEpochs == [suspect])
    }

    @Test func theLastNumber() throws {
        let machine = try Machine(highest: .max)
        let before = try machine.layout.serialized()
        let log = try machine.mount()
        let failure = VolumeError.stateFile(StateFileFailure(name: "\(Self.volume).state", .noEpochLeft))
        #expect(throws: failure) { _ = try log.epoch(encryptions: 1) }
        #expect(throws: failure) { try log.begin() }
        #expect(failure.errno == .EROFS && log.own.isEmpty)
        #expect(try machine.layout.serialized() == before)
        // One that is listed can still be used for what waits to be mended.
        #expect(try log.suspect() == .max)
        let other = EpochLog(endedBadly: [], tolerance: .everything, record: EpochRecord(machine.store))
        #expect(throws: failure) { _ = try other.suspect() }
    }

    /// Whatever call of the state directory fails: the mount has no epoch, the file is whole, and the next attempt works.
    @Test func aFailureLeavesNothingHalfDone() throws {
        var failed = 0
        for count in 1... {
            let machine = try Machine(highest: 20)
            let log = try machine.mount()
            machine.states.fail(nil, at: count, with: .EIO)
            let drawn = try? log.epoch(encryptions: 1)
            machine.states.clearFaults()
            guard drawn == nil else { break }
            failed += 1
            #expect(log.own.isEmpty, "call \(count)")
            // Only the sync of the directory comes when the file is there; then the epoch is listed as any that ended badly.
            let listed = try machine.layout.openEpochs
            #expect(listed.first == 20 && listed.count <= 2)
            let next = try log.epoch(encryptions: 1)
            #expect(listed.allSatisfy { $0 < next } && log.own == [next])
            var names: [String] = []
            try machine.states.root.forEachEntry { entry in
                names.append(String(decoding: entry.name.bytes, as: UTF8.self))
                return true
            }
            #expect(names.sorted() == ["\(Self.volume).lock", "\(Self.volume).state"], "call \(count)")
        }
        #expect(failed > 6)
    }

    /// After a power cut the file lists every epoch that was used, or is the one before.
    @Test func aPowerCutKeepsWhatWasDrawn() throws {
        let machine = try Machine()
        let log = try machine.mount(limit: 1)
        var drawn: [UInt32] = []
        for _ in 0..<4 { drawn.append(try log.epoch(encryptions: 1)) }
        for state in machine.states.crashes(atMost: 50) {
            let layout = try #require(try StateFileStore(directory: state.root, volumeID: Self.volume).load()).layout
            #expect(layout.openEpochs == drawn && layout.highestEpoch == drawn.last)
        }
    }

    @Test func withoutAStateFile() throws {
        let time = Lock<Int64>(Epoch.origin + 77)
        let record = EpochRecord.none { time.withLock { $0 } }
        let log = EpochLog(endedBadly: [], tolerance: .everything, limit: 1, record: record)
        #expect(try log.epoch(encryptions: 1) == 77 && log.epoch(encryptions: 1) == 78)
        time.withLock { $0 = 0 }
        #expect(try log.epoch(encryptions: 1) == 79 && log.suspect() == 80)
        // The directory is there, but the file is not, and is not made.
        let states = MemoryStore()
        let store = StateFileStore(directory: states.root, volumeID: Self.volume) { Epoch.origin + 7 }
        let other = EpochLog(endedBadly: [50], tolerance: .everything, limit: 1, record: EpochRecord(store))
        #expect(try other.epoch(encryptions: 1) == 51 && store.load() == nil)
    }

    /// Reading works with a feature that forbids writing; no change does.
    @Test func aFeatureThatForbidsWriting() throws {
        let machine = try Machine(highest: 3)
        try machine.store.update { $0?.layout.readOnlyCompatible = 1 << 31 }
        let log = try machine.mount()
        let failure = VolumeError.stateFile(StateFileFailure(name: "\(Self.volume).state", .readOnly))
        #expect(throws: failure) { _ = try log.epoch(encryptions: 1) }
        #expect(throws: failure) { try machine.store.endToleration() }
        #expect(try log.endedBadly == [3] && machine.layout.toleratesEverything)
    }

    @Test func setAside() throws {
        let machine = try Machine(highest: 5)
        let name = machine.store.name
        let bytes = try machine.layout.serialized()
        for attempt in 1...3 {
            #expect(try machine.store.setAside { "\(name).forgotten-\($0)" } == "\(name).forgotten-\(attempt)")
            #expect(try machine.store.load() == nil)
            #expect(try machine.store.setAside { "\(name).forgotten-\($0)" } == nil)
            try machine.store.update { state in
                var made = StateFile(unpinned: Self.volume)
                made.layout.openEpochs = [5]
                state = made
            }
        }
        #expect(try machine.layout.serialized() == bytes)
    }

    /// Each failure says which file it is.
    @Test func failuresNameTheFile() throws {
        let machine = try Machine()
        let name = BackingName.known(Array(machine.store.name.utf8))
        func reason() -> StateFileFailure.Reason? {
            do throws(VolumeError) {
                _ = try machine.store.load()
                return nil
            } catch {
                guard case .stateFile(let failure) = error else { return nil }
                #expect(failure.name == "\(Self.volume).state")
                return failure.reason
            }
        }
        #expect(reason() == nil)
        machine.states.fail(.read, with: .EIO)
        #expect(reason() == .unreadable(.EIO))
        try machine.states.root.unlink(name)
        _ = try machine.states.root.createFile(name, mode: 0o600)
        #expect(reason() == .unusable(.empty))
        let before = try machine.states.root.openFile(name, .readOnly).status().size
        #expect(throws: VolumeError.self) { try machine.store.endToleration() }
        #expect(try machine.states.root.openFile(name, .readOnly).status().size == before)
    }
}
