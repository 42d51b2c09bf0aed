// The operations of an input on the files of the volume and on the model.

import BackingStore
import FileContents
import HostSystem
@testable import MemoryStore
import KeyFiles
import VolumeFormat

@testable import ProtectedVolume

extension VolumeDriver {
    func create(_ slot: Int) {
        let body = { [self] () throws(VolumeError) in
            let made = try volume.create(name(slot), in: directory(slot), mode: 0o644, caller: Self.caller)
            _ = tag(made.content)
            volume.release(made.entry.node, writable: true)
        }
        if known[slot] == nil {
            if demand("a file cannot be created", body) != nil { known[slot] = Kept() }
        } else {
            let again: Void? = allow(body)
            check(again == nil || !isExact, "a file is created twice")
        }
    }

    func write(_ slot: Int, at offset: Int, count: Int) {
        guard known[slot] != nil || isDamaged else { return }
        demand("a file cannot be written") { () throws(VolumeError) in
            try open(slot, writable: true) { (content) throws(VolumeError) in
                let before = tags[content.fileID] == nil ? try all(content) : []
                let value = tag(content, before)
                let bytes = [UInt8](repeating: value, count: count)
                try content.write(bytes.span, at: UInt64(offset), access: .write)
                guard let kept = known[slot], count > 0 else { return }
                if kept.bytes.count < offset + count {
                    kept.bytes += [UInt8](repeating: 0, count: offset + count - kept.bytes.count)
                }
                for index in offset..<offset + count { kept.bytes[index] = value }
            }
        }
    }

    func truncate(_ slot: Int, to size: Int) {
        guard known[slot] != nil || isDamaged else { return }
        demand("a file cannot be cut") { () throws(VolumeError) in
            try open(slot, writable: true) { (content) throws(VolumeError) in try content.truncate(to: UInt64(size)) }
            guard let kept = known[slot] else { return }
            kept.bytes = Array(kept.bytes.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - kept.bytes.count))
        }
    }

    func punch(_ slot: Int, at offset: Int, count: Int) {
        guard known[slot] != nil || isDamaged, count > 0 else { return }
        demand("a hole cannot be made") { () throws(VolumeError) in
            try open(slot, writable: true) { (content) throws(VolumeError) in
                try content.allocate(.punch, at: UInt64(offset), length: UInt64(count))
            }
            guard let kept = known[slot], offset < kept.bytes.count else { return }
            for index in offset..<min(offset + count, kept.bytes.count) { kept.bytes[index] = 0 }
        }
    }

    func rename(_ slot: Int, to other: Int) {
        guard slot != other, known[slot] != nil || isDamaged else { return }
        let isSame = known[slot] != nil && known[slot] === known[other]
        demand("a file cannot be renamed") { () throws(VolumeError) in
            try volume.rename(
                name(slot), in: directory(slot), to: name(other), in: directory(other), mode: .replace)
            // Two names of one file: rename(2) does nothing.
            guard !isSame else { return }
            known[other] = known.removeValue(forKey: slot)
        }
    }

    func link(_ slot: Int, _ other: Int) {
        guard known[slot] != nil || isDamaged, known[other] == nil else { return }
        demand("a file cannot be linked") { () throws(VolumeError) in
            _ = try volume.link(node(slot), name(other), in: directory(other))
            known[other] = known[slot]
        }
    }

    func unlink(_ slot: Int) {
        guard known[slot] != nil || isDamaged else { return }
        demand("a file cannot be removed") { () throws(VolumeError) in
            try volume.unlink(name(slot), in: directory(slot))
            known[slot] = nil
        }
    }

    func setClass(_ slot: Int, _ letter: Int) {
        let names = ["A", "B", "C", "D"]
        allow { () throws(VolumeError) in
            try volume.setXattr(
                node(slot), Array("user.protection".utf8), value: Array(names[letter % 4].utf8), mode: .set)
        }
    }

    func synchronize(_ slot: Int) {
        guard known[slot] != nil || isDamaged else { return }
        demand("a file cannot be synced") { () throws(VolumeError) in
            let node = try node(slot)
            try open(slot, writable: true) { (_: FileContent) throws(VolumeError) in
                try volume.synchronize(node, dataOnly: false)
            }
        }
    }

    /// Attributes and links carry what they belong to.
    func attribute(_ slot: Int, count: Int) {
        let key = Array("user.tag".utf8)
        allow { () throws(VolumeError) in
            let node = try node(slot)
            if count > 0 {
                // A crash may have left a file without header, and so without ID: it gets one by being written.
                let tag = try open(slot, writable: true) { (content) throws(VolumeError) in
                    let before = tags[content.fileID] == nil ? try all(content) : []
                    return self.tag(content, before)
                }
                try volume.setXattr(node, key, value: [UInt8](repeating: tag, count: count % 512), mode: .set)
            }
            let value = try volume.getXattr(node, key)
            let tag = tags[try volume.objectID(of: node)]
            check(value.allSatisfy { $0 == tag || tag == nil }, "an attribute is another file's")
        }
    }

    func symlink(_ slot: Int) {
        guard let parent = allow({ () throws(VolumeError) in try self.directory(slot) }) else { return }
        let name = Array("s\(slot % 4)".utf8)
        let text = Array("target of ".utf8)
        allow { () throws(VolumeError) in
            _ = try volume.symlink(name, in: parent, target: text + name, caller: Self.caller)
        }
        allow { () throws(VolumeError) in
            let target = try volume.readlink(volume.lookup(name, in: parent).node)
            check(target.starts(with: text), "a link's target is none that was ever made")
            check(!isExact || target == text + name, "a link leads elsewhere")
        }
    }

    func directory(_ slot: Int, make: Bool) {
        allow { () throws(VolumeError) in
            let name = Array("d\(slot % 4)".utf8)
            if make {
                _ = try volume.mkdir(name, in: directory(slot), mode: 0o755, caller: Self.caller)
            } else {
                try volume.rmdir(name, in: directory(slot))
            }
        }
    }
}
