// Everything that a mount shows of a volume, as one value, and what a change below made of it.

import BackingStore
import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

/// Everything that programs see, by path and aspect: contents, classes, sizes, links, attributes, or an error.
struct TamperReading {
    var values: [String: String] = [:]
    /// The bytes of files, by path.
    var contents: [String: [UInt8]] = [:]
    private var foundAttributeDamage = false

    private static let error = "error: "

    init(_ it: TestVolume) {
        walk(it, it.volume.root, ".")
        foundAttributeDamage = it.notices.withLock { $0.contains { $0.contains("Damage.attribute") } }
    }

    private mutating func walk(_ it: TestVolume, _ node: Node, _ path: String) {
        note(path, "class") { () throws(VolumeError) in
            try it.volume.protectionClass(of: node).map { $0.shortName } ?? "none"
        }
        attributes(it, node, path)
        let names: [[UInt8]]
        do throws(VolumeError) {
            names = try it.list(node)
        } catch {
            values["\(path)/"] = Self.error + "\(error)"
            return
        }
        for name in names {
            let below = "\(path)/\(String(decoding: name, as: UTF8.self))"
            do throws(VolumeError) {
                let entry = try it.volume.lookup(name, in: node)
                look(it, entry, below)
                it.volume.forget(entry.node, count: 1)
            } catch {
                values[below] = Self.error + "\(error)"
            }
        }
    }

    private mutating func look(_ it: TestVolume, _ entry: Entry, _ path: String) {
        let status = entry.attributes
        var node = entry.node
        values[path] = "\(node.kind)"
        values["\(path) status"] =
            "\(String(status.mode, radix: 8)) \(status.owner):\(status.group) \(status.links) \(status.device)"
        switch node.kind {
        case .directory: walk(it, node, path)
        case .symlink:
            values["\(path) size"] = "\(status.size)"
            note(path, "target") { () throws(VolumeError) in
                String(decoding: try it.volume.readlink(node), as: UTF8.self)
            }
        case .file:
            var found: [UInt8]?
            values["\(path) size"] = "\(status.size)"
            note(path, "content") { () throws(VolumeError) in
                let content: FileContent
                do throws(VolumeError) {
                    content = try it.volume.open(node, writable: false)
                } catch {
                    // Its size was shown wrong: the kernel looks it up again.
                    guard case .refused(.ESTALE) = error else { throw error }
                    node = try it.node(String(path.dropFirst(2)))
                    content = try it.volume.open(node, writable: false)
                }
                let bytes = try content.getAll()
                found = bytes
                return "\(bytes.count) bytes, \(bytes.hashValue)"
            }
            contents[path] = found
            note(path, "class") { () throws(VolumeError) in
                try it.volume.protectionClass(of: node).map { $0.shortName } ?? "none"
            }
            attributes(it, node, path)
        default: break
        }
    }

    private mutating func attributes(_ it: TestVolume, _ node: Node, _ path: String) {
        // Whether the class is listed depends on the volume's default. A directory without a default has none.
        let protection = Array("user.protection".utf8)
        var names: [[UInt8]]
        do throws(VolumeError) {
            names = try it.volume.listXattr(node).filter { $0 != protection }
            do throws(VolumeError) {
                _ = try it.volume.getXattr(node, protection)
                names.append(protection)
            } catch {
                if error != .refused(.ENODATA) { names.append(protection) }
            }
        } catch {
            values["\(path) attributes"] = Self.error + "\(error)"
            return
        }
        for name in names {
            note(path, "attribute \(String(decoding: name, as: UTF8.self))") { () throws(VolumeError) in
                "\(try it.volume.getXattr(node, name))"
            }
        }
    }

    private mutating func note(_ path: String, _ aspect: String, _ body: () throws(VolumeError) -> String) {
        do throws(VolumeError) {
            values["\(path) \(aspect)"] = try body()
        } catch {
            values["\(path) \(aspect)"] = Self.error + "\(error)"
        }
    }

    var hasErrors: Bool {
        values.values.contains { $0.hasPrefix(Self.error) } || values.keys.contains(where: Self.isMarked)
    }

    /// A change that is neither the old value nor an error.
    struct Change: Hashable, Comparable {
        let key: String
        let value: String?

        static func < (one: Change, two: Change) -> Bool { one.key < two.key }
        /// Whether it is a file's class or a directory's default.
        var isClass: Bool { aspect == "class" || key.hasSuffix("attribute user.protection") }
        /// The part behind the path: `content`, `size`, `status`; empty for the entry itself.
        var path: String { key.split(separator: " ").first.map(String.init) ?? "" }
        var aspect: String { key.split(separator: " ").dropFirst().first.map(String.init) ?? "" }
    }

    /// Compares with the reading before a change: whether an error showed, and what changed without one.
    func compare(with before: TamperReading) -> (detected: Bool, changes: [Change]) {
        var detected = false
        var changes: [Change] = []
        for (key, value) in before.values {
            let now = values[key]
            if now == value { continue }
            if now?.hasPrefix(Self.error) ?? isExplained(key) {
                detected = true
            } else {
                changes.append(Change(key: key, value: now))
            }
        }
        for (key, value) in values where before.values[key] == nil {
            if value.hasPrefix(Self.error) || Self.isMarked(key) {
                detected = true
            } else {
                changes.append(Change(key: key, value: value))
            }
        }
        return (detected, changes.sorted())
    }

    /// Whether something that is missing shows in another way: its directory or its object gives an error, or an
    /// undecryptable entry stands where it was.
    private func isExplained(_ key: String) -> Bool {
        let parts = key.split(separator: " ", maxSplits: 1)
        let path = parts.first.map(String.init) ?? ""
        if parts.count > 1, key.hasPrefix("\(path) attribute") {
            let isDamaged = values["\(path) attributes"]?.hasPrefix(Self.error) ?? foundAttributeDamage
            if isDamaged { return true }
        }
        var ancestor = path
        while true {
            if values[ancestor]?.hasPrefix(Self.error) ?? false { return true }
            guard let slash = ancestor.lastIndex(of: "/") else { return false }
            ancestor = String(ancestor[..<slash])
            if values["\(ancestor)/"]?.hasPrefix(Self.error) ?? false { return true }
            let below = "\(ancestor)/"
            if values.keys.contains(where: { $0.hasPrefix(below) && Self.isMarked($0.dropFirst(ancestor.count)) }) {
                return true
            }
        }
    }

    /// Whether an entry is shown under a name that says that its own is not verified.
    private static func isMarked(_ key: some StringProtocol) -> Bool {
        key.contains("/.undecryptable-") || key.contains("/.unverified-")
    }
}
