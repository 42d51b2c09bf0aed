// The history of a file before a power cut, and the states that are allowed afterwards.

import BackingStore
import Glibc
import HostSystem
import KeyFiles
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

/// One step of a history.
enum PowerCutStep: Hashable, Sendable, CustomStringConvertible {
    case write(at: Int, count: Int)
    case append(Int)
    case truncate(Int)
    case punch(Int, Int)
    case zero(Int, Int)
    case reserve(Int, Int)
    case changeClass(ProtectionClass)
    /// A new file with so many bytes is renamed over this one, which takes its place.
    case replace(Int, synced: Bool)
    case synchronize

    var description: String {
        switch self {
        case .write(let offset, let count): "write \(count) at \(offset)"
        case .append(let count): "append \(count)"
        case .truncate(let size): "truncate to \(size)"
        case .punch(let offset, let count): "punch \(count) at \(offset)"
        case .zero(let offset, let count): "zero \(count) at \(offset)"
        case .reserve(let offset, let count): "reserve \(count) at \(offset)"
        case .changeClass(let target): "class \(target.letter)"
        case .replace(let count, let synced): "\(synced ? "fsynced " : "")file of \(count) renamed over"
        case .synchronize: "fsync"
        }
    }

    /// The content of the file after this step.
    func result(of model: [UInt8], number: Int) -> [UInt8] {
        var model = model
        switch self {
        case .write(let offset, let count): place(&model, offset, count, number)
        case .append(let count): place(&model, model.count, count, number)
        case .truncate(let size):
            if size < model.count { model.removeLast(model.count - size) } else { grow(&model, size) }
        case .punch(let offset, let count): clear(&model, offset, count)
        case .zero(let offset, let count):
            grow(&model, offset + count)
            clear(&model, offset, count)
        case .reserve(let offset, let count): grow(&model, offset + count)
        case .replace(let count, _):
            model = []
            place(&model, 0, count, number)
        case .changeClass, .synchronize: break
        }
        return model
    }

    private func place(_ model: inout [UInt8], _ offset: Int, _ count: Int, _ number: Int) {
        grow(&model, offset + count)
        for index in offset..<offset + count { model[index] = Self.byte(number, index) }
    }

    private func clear(_ model: inout [UInt8], _ offset: Int, _ count: Int) {
        for index in offset..<max(offset, min(model.count, offset + count)) { model[index] = 0 }
    }

    private func grow(_ model: inout [UInt8], _ size: Int) {
        if size > model.count { model += [UInt8](repeating: 0, count: size - model.count) }
    }

    /// Never zero; differs from step to step.
    static func byte(_ number: Int, _ index: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: number &* 37 &+ index &* 11 &+ index >> 8) | 1
    }

    /// Performs the step.
    func perform(on content: FileContent, _ model: [UInt8], number: Int) throws(VolumeError) {
        switch self {
        case .write(let offset, let count):
            try content.put((offset..<offset + count).map { Self.byte(number, $0) }, at: offset)
        case .append(let count):
            try content.put((model.count..<model.count + count).map { Self.byte(number, $0) }, at: model.count)
        case .truncate(let size): try content.truncate(to: UInt64(size))
        case .punch(let offset, let count): try content.allocate(.punch, at: UInt64(offset), length: UInt64(count))
        case .zero(let offset, let count): try content.allocate(.zero, at: UInt64(offset), length: UInt64(count))
        case .reserve(let offset, let count):
            try content.allocate(.reserve, at: UInt64(offset), length: UInt64(count))
        case .changeClass(let target): try content.changeClass(to: target, explicit: true)
        case .replace: break
        case .synchronize: try content.synchronize(dataOnly: true)
        }
    }
}

/// The states allowed after a power cut.
struct PowerCutHistory {
    /// Contents since (and including) the last fsync.
    var versions: [[UInt8]]
    let geometry: PageGeometry

    /// The error in `found`; nil if every promise is kept.
    func objection(to found: [UInt8]) -> String? {
        guard allowsSize(found.count) else {
            return "size \(found.count), had \(versions.map(\.count))"
        }
        var block: UInt64 = 0
        while geometry.start(ofBlock: block) < UInt64(found.count) {
            let start = Int(geometry.start(ofBlock: block))
            let end = min(found.count, start + geometry.capacity(ofBlock: block))
            let isVersion = versions.contains { version in
                let held = max(start, min(end, version.count))
                return unsafe found.withUnsafeBytes { found in
                    unsafe version.withUnsafeBytes { version in
                        unsafe Self.same(found, version, start..<held) && Self.isZero(found, held..<end)
                    }
                }
            }
            guard isVersion else { return "block \(block) is of no version" }
            block += 1
        }
        return nil
    }

    private static func same(
        _ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer, _ range: Range<Int>
    ) -> Bool {
        guard !range.isEmpty, let first = one.baseAddress, let second = other.baseAddress else {
            return true
        }
        return unsafe memcmp(first + range.lowerBound, second + range.lowerBound, range.count) == 0
    }

    private static func isZero(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Bool {
        for place in range { if unsafe bytes[place] != 0 { return false } }
        return true
    }

    /// A size that the file had, or the end of a whole block between two consecutive ones.
    private func allowsSize(_ size: Int) -> Bool {
        if versions.contains(where: { $0.count == size }) { return true }
        guard size > 0 else { return false }
        let last = geometry.locate(UInt64(size) - 1)
        guard last.offset + 1 == geometry.capacity(ofBlock: last.block) else { return false }
        return zip(versions, versions.dropFirst()).contains { one, other in
            size > min(one.count, other.count) && size < max(one.count, other.count)
        }
    }
}

extension MemoryStore.Moment {
    /// The store of tables of seen versions as if every change were durable at once: nothing that it says may be more than is true.
    var latest: MemoryStore? {
        let store = store(outcome(count - 1))
        store?.clearRecords(recording: false)
        return store
    }
}
