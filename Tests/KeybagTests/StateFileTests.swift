// Tests which state files are refused, and why: a newer one is told from a damaged one.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct StateFileTests {
    private static let volume = VolumeID(InlineArray { UInt8($0 + 1) })

    private func whole(_ change: (inout StateFile) -> Void = { _ in }) -> [UInt8] {
        var state = StateFile(unpinned: Self.volume)
        state.layout.openEpochs = [7]
        change(&state)
        return state.serialized()
    }

    /// Changes bytes and makes the hash right again.
    private func changed(_ bytes: [UInt8], _ change: (inout [UInt8]) -> Void) -> [UInt8] {
        var bytes = bytes
        change(&bytes)
        return StateFile.withHash(bytes)
    }

    private func defect(_ bytes: [UInt8], of volume: VolumeID? = volume) -> StateFileDefect? {
        do throws(StateFileDefect) {
            _ = try StateFile(parsing: bytes, of: volume)
            return nil
        } catch { return error }
    }

    @Test func eachKind() {
        let bytes = whole()
        let writer = ProgramVersion.writer
        #expect(defect(bytes) == nil)
        #expect(defect([]) == .empty)
        #expect(defect(bytes + [0]) == .damaged)
        #expect(defect([UInt8](repeating: 0, count: bytes.count)) == .damaged)
        #expect(defect(Array("damaged".utf8)) == .damaged)
        #expect(defect(Array("#!/bin/sh\n# not a state file".utf8)) == .damaged)
        #expect(defect(bytes, of: VolumeID(InlineArray(repeating: 9))) == .otherVolume(Self.volume))
        #expect(defect(changed(bytes) { $0[8] = 3 }) == .newer(.version(3), writer: writer))
        #expect(defect(changed(bytes) { $0[9] = 1 }) == .newer(.version(258), writer: writer))
        #expect(defect(changed(bytes) { $0[8] = 0 }) == .damaged)
        #expect(defect(changed(bytes) { $0[105] = 1 }) == .newer(.unsupported("incompatible features"), writer: writer))
        #expect(defect(changed(bytes) { $0[124] = 1 }) == .newer(.unsupported("reserved bytes"), writer: writer))
        // The epochs' TLV becomes one that is not known and must be.
        let epochs = 128 + 6 + writer.utf8.count
        #expect(defect(changed(bytes) { $0[epochs + 1] = 0x80 }) == .newer(.unsupported("TLV"), writer: writer))
        // A right hash over a contradiction.
        #expect(defect(changed(bytes) { $0[10] = 127 }) == .damaged)
        #expect(defect(changed(bytes) { $0[120] = 6 }) == .damaged)
        #expect(defect(changed(bytes) { $0[12] += 1 }) == .cutOff(length: bytes.count, expected: bytes.count + 1))
        #expect(defect(changed(bytes) { $0[12] -= 1 }) == .damaged)
        // Its writer is not believed where it is no text.
        #expect(defect(changed(bytes) { ($0[8], $0[128 + 6]) = (3, 10) }) == .newer(.version(3), writer: nil))
        #expect(defect(changed(bytes) { $0[128 + 6] = 10 }) == nil)
        // Another volume's is that first, also where it is newer.
        #expect(
            defect(changed(bytes) { $0[8] = 3 }, of: VolumeID(InlineArray(repeating: 9))) == .otherVolume(Self.volume))
    }

    /// A version that is newer may be short or long; a state file of version 1 had no hash.
    @Test func otherVersions() {
        var small = Array(whole()[..<64])
        (small[8], small[10], small[12]) = (7, 32, 64)
        (small[13], small[14]) = (0, 0)
        #expect(defect(StateFile.withHash(small)) == .newer(.version(7), writer: nil))
        #expect(defect(small) == .damaged)
        for length in [10, 64, 104, 200] {
            var old = [UInt8](repeating: 0, count: length)
            old.replaceSubrange(0..<10, with: Array("PFSSTAT1".utf8) + [1, 0])
            #expect(defect(old) == .neverReleased, "\(length)")
        }
    }

    @Test func everyCutAndEveryFlip() {
        let bytes = whole()
        for length in 1..<bytes.count {
            let expected = length < 16 ? 64 : bytes.count
            #expect(defect(Array(bytes[..<length])) == .cutOff(length: length, expected: expected), "\(length)")
        }
        for place in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[place] ^= 1 << bit
                let isCut = (12..<16).contains(place)
                switch defect(damaged) {
                case .damaged: break
                case .cutOff: #expect(isCut)
                case .neverReleased: #expect(place == 8)
                case let other: Issue.record("byte \(place), bit \(bit): \(String(describing: other))")
                }
            }
        }
    }

    /// What this program does not know is in the bytes again when it writes the file.
    @Test func whatIsNotKnownIsKept() throws {
        var state = try StateFile(parsing: whole())
        state.layout.rest = [1, 2, 3]
        state.layout.compatible = 0x8000_0001
        state.layout.otherFlags = 0x4000_0000
        var bytes = state.layout.serialized()
        let value: [UInt8] = [0x34, 0x12, 2, 0, 0, 0, 0xaa, 0xbb]
        bytes.insert(contentsOf: value, at: bytes.count - 32)
        bytes[12] = UInt8(bytes.count)
        bytes = StateFile.withHash(bytes)
        var read = try StateFile(parsing: bytes)
        #expect(read.isWritable)
        read.layout.openEpochs = []
        #expect(read.drawEpoch(at: 0) == 8)
        read.layout.toleratesEverything = false
        let again = try StateFile(parsing: read.serialized())
        #expect(again.layout.rest == [1, 2, 3] && again.layout.compatible == 0x8000_0001)
        #expect(again.layout.otherFlags == 0x4000_0000 && again.layout.openEpochs == [8])
        let written = read.serialized()
        #expect(written.indices.contains { written[$0...].starts(with: value) })
        #expect(again.layout.writer == ProgramVersion.writer)
        read.layout.readOnlyCompatible = 1
        #expect(try !StateFile(parsing: read.serialized()).isWritable)
    }

    @Test func aLongFile() throws {
        var state = try StateFile(parsing: whole())
        state.layout.rest = [UInt8](repeating: 7, count: 65_407)
        var bytes = state.layout.serialized()
        func length(_ count: Int) {
            for index in 0..<4 { bytes[12 + index] = UInt8(truncatingIfNeeded: count >> (8 * index)) }
        }
        let rest = (1 << 20) - bytes.count
        let size = rest - 6
        bytes.insert(
            contentsOf: [9, 0] + (0..<4).map { UInt8(truncatingIfNeeded: size >> (8 * $0)) }
                + [UInt8](repeating: 1, count: size), at: bytes.count - 32)
        length(1 << 20)
        #expect(defect(StateFile.withHash(bytes)) == nil)
        bytes.append(0)
        length(1 << 20 + 1)
        #expect(defect(StateFile.withHash(bytes)) == .damaged)
    }

    /// The state file of a copy begins above the epochs of the original, whose files the copy has.
    @Test func epochsOfCopiesRise() throws {
        var original = StateFile(unpinned: Self.volume)
        #expect(original.drawEpoch(above: 3_000_000_000, at: 0) == 3_000_000_001)
        var exhausted = StateFile(unpinned: Self.volume)
        #expect(exhausted.drawEpoch(above: .max - 1, at: 0) == .max)
        var copy = StateFile(unpinned: Self.volume, above: [original, exhausted])
        #expect(copy.layout.openEpochs.isEmpty && copy.layout.toleratesEverything)
        #expect(copy.drawEpoch(at: Epoch.origin + 100) == 3_000_000_002)
        var other = StateFile(unpinned: Self.volume, above: [exhausted])
        #expect(other.drawEpoch(at: Epoch.origin + 100) == 100)
    }

    @Test func drawnEpochsRise() throws {
        var state = StateFile(unpinned: Self.volume)
        #expect(state.drawEpoch(at: Epoch.origin + 100) == 100)
        #expect(state.drawEpoch(at: Epoch.origin + 50) == 101)
        #expect(state.drawEpoch(above: 500, at: 0) == 501)
        state.layout.openEpochs = []
        state = try StateFile(parsing: state.serialized())
        #expect(state.layout.highestEpoch == 501 && state.drawEpoch(at: .min) == 502)
        #expect(state.drawEpoch(above: .max - 1, at: 0) == .max)
        #expect(state.drawEpoch(at: 0) == nil && state.layout.openEpochs == [502, .max])
        state = try StateFile(parsing: state.serialized())
        #expect(state.drawEpoch(at: Epoch.origin + 100) == nil)
    }
}
