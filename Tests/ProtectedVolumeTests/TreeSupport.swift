// Steps on a tree as a volume does them, and the tree as a volume shows it.

@testable import MemoryStore
import BackingStore
import KeyFiles
import Keybag
import HostSystem
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

/// The objects found in a volume, with a line for each path.
struct FoundTree: Equatable {
    var lines: [String: String] = [:]
    /// Files that are empty, whose header a crash may have taken, and their attributes with it.
    var empty: Set<String> = []
}

extension TreeModel {
    fileprivate static let target = "target"
    /// One that is in an overflow object.
    fileprivate static let longTarget = String(repeating: "long ", count: 800)

    /// The target of a link that is made at `path`.
    fileprivate static func target(of path: String) -> String { path.contains("/") ? longTarget : target }

    /// Whether `found` is `tree`, with contents that may be there.
    func allows(_ found: FoundTree, _ tree: Tree) -> Bool {
        guard Set(found.lines.keys) == Set(tree.names.keys).union([""]) else { return false }
        return found.lines.allSatisfy { path, line in
            guard let (number, object) = tree.object(path) else { return false }
            let suffix = object.attribute.map { ", \($0)" } ?? ""
            switch object.kind {
            case .directory:
                return line == "directory \(object.defaultClass.map { String($0.letter) } ?? "-")\(suffix)"
            case .symlink: return [Self.target, Self.longTarget].contains { line == "link to \($0)" }
            case .file:
                let allowed = texts[number] ?? []
                if found.empty.contains(path) { return allowed.contains("") }
                return allowed.contains { text in
                    (classes[number] ?? []).contains { line == "file \($0.letter), \"\(text)\"\(suffix)" }
                }
            }
        }
    }
}

extension TestVolume {
    /// Does a step; `number` makes its text.
    func perform(_ step: TreeStep, _ number: Int, _ bags: [Keybag] = []) throws {
        let text = TreeModel.text(number)
        switch step {
        case .mkdir(let path): try mkdir(path)
        case .create(let path, let synced):
            let (parent, name) = try parent(path)
            let (entry, content) = try volume.create(name, in: parent, mode: 0o644, caller: TestVolume.caller)
            defer { volume.release(entry.node, writable: true) }
            try content.put(Array(text.utf8), at: 0)
            if synced { try volume.synchronize(entry.node, dataOnly: false) }
        case .overwrite(let path):
            let node = try node(path)
            let content = try volume.open(node, writable: true)
            defer { volume.release(node, writable: true) }
            try content.put(Array(text.utf8), at: 0)
            try content.truncate(to: UInt64(text.utf8.count))
        case .unlink(let path): try unlink(path)
        case .rmdir(let path): try rmdir(path)
        case .rename(let old, let new): try rename(old, new)
        case .exchange(let old, let new): try rename(old, new, .exchange)
        case .link(let old, let new):
            let (parent, name) = try parent(new)
            _ = try volume.link(node(old), name, in: parent)
        case .symlink(let path):
            let (parent, name) = try parent(path)
            let target = Array(TreeModel.target(of: path).utf8)
            _ = try volume.symlink(name, in: parent, target: target, caller: TestVolume.caller)
        case .setDefault(let path, let value): try setClass(path, String(value.letter))
        case .setAttribute(let path):
            try volume.setXattr(node(path), Array("user.a".utf8), value: Array(text.utf8), mode: .set)
        case .setLargeAttribute(let path):
            let value = Array(TreeModel.largeText(number).utf8)
            try volume.setXattr(node(path), Array("user.a".utf8), value: value, mode: .set)
        case .reencrypt(let path): try volume.reencrypt(node(path), to: .complete)
        case .replaceKeybag:
            let bytes = try KeybagFile.read(in: directory)
            guard let current = bags.firstIndex(where: { $0.bytes == bytes }) else { throw Errno.EIO }
            let left = try KeybagFile.replace(
                .init(bytes, isPrevious: false), with: bags[current + 1].bytes, in: directory)
            if let left { throw left }
            let bag = bags[current + 1]
            try StateFileStore(directory: states.root, volumeID: bag.volumeID).update { try? $0?.pin(bag) }
        case .synchronize(let path):
            let node = try node(path)
            _ = try volume.open(node, writable: true)
            defer { volume.release(node, writable: true) }
            try volume.synchronize(node, dataOnly: false)
        case .synchronizeRoot: try volume.synchronizeDirectory(volume.root)
        }
    }

    /// Reads everything but what is at `ignored`.
    func look(ignoring ignored: Set<String> = []) throws -> FoundTree {
        var found = FoundTree()
        var pending = [""]
        while let path = pending.popLast() {
            let attribute = try? volume.getXattr(node(path), Array("user.a".utf8))
            let suffix = attribute.map { ", " + String(decoding: $0, as: UTF8.self) } ?? ""
            switch try node(path).kind {
            case .directory:
                let value = (try? getClass(path)).flatMap(ProtectionClass.init(name:))
                found.lines[path] = "directory \(value.map { String($0.letter) } ?? "-")\(suffix)"
                for name in try list(path) where !ignored.contains(name) {
                    pending.append(path.isEmpty ? name : "\(path)/\(name)")
                }
            case .symlink:
                found.lines[path] = "link to \(String(decoding: try volume.readlink(node(path)), as: UTF8.self))"
            default:
                let text = try read(path)
                let value = ProtectionClass(name: try getClass(path))
                found.lines[path] = "file \(value.map { String($0.letter) } ?? "-"), \"\(text)\"\(suffix)"
                if text.isEmpty {
                    found.empty.insert(path)
                    found.lines[path] = "empty file"
                }
            }
        }
        return found
    }

    /// The errors that `fsck` reports, and other findings that a second run should not have.
    func mend() throws -> [String] {
        let findings = Lock<[String]>([])
        let store = StateFileStore(directory: states.root, volumeID: volume.keys.volumeID)
        var options = CheckOptions()
        options.threads = 1
        let summary = try Check.run(
            directory: directory.reopen(), keys: volume.keys, states: store, options: options
        ) { finding in
            guard finding.severity == .error else { return }
            findings.withLock {
                $0.append("\(finding.kind.rawValue) of \(String(decoding: finding.path, as: UTF8.self))")
            }
        }
        guard summary.errors > 0 || summary.closedEpochs else { return ["epochs that stay open"] }
        return findings.withLock { $0 }
    }
}
