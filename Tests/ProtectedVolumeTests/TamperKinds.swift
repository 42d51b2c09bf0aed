// Every kind of stored object below a volume's root, as scenes of the tamper matrix.

import KeyFiles
import TestSupport
import BackingStore
import Keybag
import Testing
import VolumeFormat

@testable import ProtectedVolume

extension TamperScene {
    /// All scenes.
    static func all() throws -> [TamperScene] {
        [
            try files(
                .aes256GCM, "complete until first unlock (C), AES-256-GCM", "C", .completeUntilFirstUserAuthentication),
            try files(.xChaCha20Poly1305, "complete unless open (B), XChaCha20-Poly1305", "B", .completeUnlessOpen),
            try small(), try holes(), try tree(), try aside(), try overflow(),
        ]
    }

    /// Files where crash damage is tolerated, and what there is to see of it: whole pages, lengths.
    static func tolerated() throws -> TamperScene {
        try files(
            .aes256GCM, "C", "C", .completeUntilFirstUserAuthentication, prefix: "After a crash: file",
            isTolerant: true
        ).afterACrash()
    }

    private static func bytes(_ seed: UInt64, _ count: Int) -> [UInt8] {
        var random = SeededGenerator(seed)
        return random.bytes(count)
    }

    private static func page(_ index: Int, of bytes: [UInt8]) -> Range<Int> {
        min(index * 4096, bytes.count)..<min(index * 4096 + 4096, bytes.count)
    }

    private static func block(
        _ name: String, _ index: Int, _ geometry: PageGeometry, _ label: String, place: String = "f"
    ) -> TamperKind {
        TamperKind(
            name: "\(name), \(label)", place: place, partner: place + "2",
            fields: { bytes in
                let start = page(index, of: bytes).lowerBound
                return geometry.fields(ofBlock: UInt64(index)).map { $0.moved(by: start) }
            },
            whole: { page(index, of: $0) })
    }

    private static func header(_ name: String, _ protectionClass: ProtectionClass) -> TamperKind {
        TamperKind(
            name: "\(name), header", place: "f", partner: "f2", fields: { _ in FileHeader.fields(of: protectionClass) },
            whole: { _ in 0..<FileHeader.length })
    }

    /// Two files of four pages; before, they had another content and class D, which they had inherited.
    private static func files(
        _ suite: CipherSuite, _ label: String, _ letter: String, _ protectionClass: ProtectionClass,
        prefix: String = "File", isTolerant: Bool = false
    ) throws -> TamperScene {
        let geometry = PageGeometry(suite: suite)
        let name = "\(prefix) of class \(label)"
        let kinds: [TamperKind] = [
            header(name, protectionClass), block(name, 0, geometry, "block 0"),
            block(name, 1, geometry, "a block in the middle"), block(name, 3, geometry, "last block"),
            TamperKind(
                name: "\(name), behind the last page", place: "f", partner: "f2",
                fields: { [LayoutField("length (a hole)", 4 * 4096..<$0.count)] }),
            TamperKind(
                name: "\(name), the backing file", place: "f", partner: "f2", fields: { _ in [] },
                whole: { 0..<$0.count }),
        ]
        return try TamperScene(
            suite, isTolerant ? kinds.compactMap(\.pagesAlone) : kinds,
            build: { it in
                try it.fill("f", bytes(1, 14_000))
                try it.fill("f2", bytes(2, 14_100))
            },
            change: { it in
                for path in ["f", "f2"] { try it.setClass(path, letter) }
                try it.fill("f", bytes(3, 14_000))
                try it.fill("f2", bytes(4, 14_100))
            },
            places: { it in
                ["f": try it.place("f", TamperPlace.file), "f2": try it.place("f2", TamperPlace.file)]
            })
    }

    /// Files of one block, and empty ones.
    private static func small() throws -> TamperScene {
        let geometry = PageGeometry(suite: .aes256GCM)
        return try TamperScene(
            .aes256GCM,
            [
                block("File of one block", 0, geometry, "its block"),
                TamperKind(
                    name: "File of one block, the backing file", place: "f", partner: "f2", fields: { _ in [] },
                    whole: { 0..<$0.count }),
                block("Empty file", 0, geometry, "its block", place: "e"),
            ],
            build: { it in
                for (number, path) in ["f", "f2"].enumerated() { try it.fill(path, bytes(UInt64(number), 100)) }
                try it.write("e", "before")
                try it.write("e2", "before")
            },
            change: { it in
                for (number, path) in ["f", "f2"].enumerated() { try it.fill(path, bytes(UInt64(number) + 7, 100)) }
                for path in ["e", "e2"] { try it.extend(path, to: 0) }
            },
            places: { it in
                var result: [String: TamperPlace] = [:]
                for path in ["f", "f2", "e", "e2"] { result[path] = try it.place(path, TamperPlace.file) }
                return result
            })
    }

    static func holes() throws -> TamperScene {
        let geometry = PageGeometry(suite: .aes256GCM)
        return try TamperScene(
            .aes256GCM,
            [
                header("File with holes", .completeUntilFirstUserAuthentication),
                block("File with holes", 1, geometry, "a block between holes"),
                TamperKind(
                    name: "File with holes, a hole", place: "f", partner: "f2",
                    fields: { [LayoutField("page of zeros", page(3, of: $0))] }),
                block("File with holes", 4, geometry, "last block"),
            ],
            build: { it in
                try it.fill("f", bytes(1, 100))
                try it.fill("f2", bytes(2, 100))
                for path in ["f", "f2"] {
                    try it.extend(path, to: 18_000)
                    try it.put(path, bytes(5, 4000), at: 4000)
                }
            },
            change: { it in
                try it.put("f", bytes(3, 4000), at: 4000)
                try it.put("f2", bytes(4, 4000), at: 4000)
                try it.put("f", bytes(6, 10), at: 17_000)
                try it.put("f2", bytes(7, 10), at: 17_000)
            },
            places: { it in
                ["f": try it.place("f", TamperPlace.file), "f2": try it.place("f2", TamperPlace.file)]
            })
    }

    static func link(_ name: String, _ place: String, _ fields: @escaping @Sendable ([UInt8]) -> [LayoutField])
        -> TamperKind
    {
        TamperKind(
            name: name, place: place, partner: place + "2", fields: fields,
            whole: { 0..<$0.count })
    }

    private static func named(_ name: String, _ place: String, partner: String? = nil) -> TamperKind {
        TamperKind(
            name: name, place: place, partner: partner ?? place + "2",
            fields: { LayoutField.encodedName(count: $0.count) }, whole: { 0..<$0.count })
    }

    private static let long = [String(repeating: "l", count: 200), String(repeating: "m", count: 200)]

    /// Names, records, links and attributes.
    private static func tree() throws -> TamperScene {
        let text: @Sendable ([UInt8]) -> [LayoutField] = { [LayoutField("text", 0..<$0.count)] }
        let hash: @Sendable ([UInt8]) -> [LayoutField] = { [LayoutField("hash", 0..<$0.count)] }
        return try TamperScene(
            .aes256GCM,
            [
                link("Directory record", "record") { _ in DirectoryRecord.fields },
                TamperKind(
                    name: "Directory record, the symlink's text", place: "record text", partner: "record text2",
                    fields: text),
                link("Root's record", "root record") { _ in DirectoryRecord.fields },
                named("Name of an entry", "name"),
                named("Name of an entry, and one of another directory", "name", partner: "name elsewhere"),
                TamperKind(name: "Long name's entry", place: "long", partner: "long2", fields: hash),
                TamperKind(
                    name: "Long name's companion, its name", place: "companion", partner: "companion2", fields: hash),
                link("Long name's companion, its target", "encoding") { LayoutField.encodedName(count: $0.count) },
                link("Symlink", "link") { LayoutField.sealed(count: $0.count) },
                TamperKind(
                    name: "Symlink, its text", place: "link text", partner: "link text2", fields: text),
                named("Attribute's name", "attribute"),
                named("Attribute's name, and one of another object", "attribute", partner: "attribute elsewhere"),
                link("Attribute's value", "value") { LayoutField.sealed(count: $0.count) },
                TamperKind(
                    name: "Attribute's value, and that of the same name on another object", place: "value",
                    partner: "value elsewhere", fields: { LayoutField.sealed(count: $0.count) },
                    whole: { 0..<$0.count }),
                link("Directory's attribute", "directory value") { LayoutField.sealed(count: $0.count) },
            ],
            build: { it in
                for path in ["d", "d2"] {
                    try it.mkdir(path)
                    try it.write("\(path)/inner", path)
                    try it.attribute(path, "user.note", "before")
                }
                for path in ["before", "before2", "d/elsewhere"] { try it.write(path, path) }
                for path in ["a", "a2", "d/a"] {
                    try it.write(path, path)
                    try it.attribute(path, "user.one", "first of \(path)")
                    try it.attribute(path, "user.two", "second of \(path)")
                }
                for path in long { try it.write(path, "content of \(path)") }
                for path in ["link", "link2"] { try it.link(path, "before \(path)") }
            },
            change: { it in
                for path in ["d", "d2", ""] { try it.setClass(path, "B") }
                for path in ["d", "d2"] { try it.attribute(path, "user.note", "after, in \(path)") }
                try it.rename("before", "name")
                try it.rename("before2", "name2")
                for path in ["a", "a2"] {
                    try it.attribute(path, "user.one", "changed first of \(path)")
                    try it.attribute(path, "user.two", "changed second of \(path)")
                }
                for path in ["link", "link2"] {
                    try it.unlink(path)
                    try it.link(path, "now somewhere else, \(path)")
                }
            },
            places: { it in
                var result: [String: TamperPlace] = [:]
                for (directory, suffix) in [("d", ""), ("d2", "2")] {
                    let path = try it.backingPath(directory)
                    result["record\(suffix)"] = .link(path, BackingName.record)
                    result["record text\(suffix)"] = .text(path, BackingName.record)
                    result["directory value\(suffix)"] = .attributeValue(
                        [], path[0], try it.attributeBackingName(directory, "user.note"))
                }
                result["root record"] = .link([], BackingName.record)
                result["root record2"] = result["record"]
                let isOld = (try? it.node("before")) != nil
                for (path, suffix) in [
                    (isOld ? "before" : "name", ""), (isOld ? "before2" : "name2", "2"), ("d/elsewhere", " elsewhere"),
                ] {
                    result["name\(suffix)"] = try it.place(path) { .name($0, $1, prefix: "", suffix: "") }
                }
                for (path, name, suffix) in [
                    ("a", "user.one", ""), ("a", "user.two", "2"), ("d/a", "user.one", " elsewhere"),
                ] {
                    let stored = try it.attributeBackingName(path, name)
                    result["attribute\(suffix)"] = try it.place(path) { .attributeName($0, $1, stored) }
                    result["value\(suffix)"] = try it.place(path) { .attributeValue($0, $1, stored) }
                }
                for (path, suffix) in zip(long, ["", "2"]) {
                    result["long\(suffix)"] = try it.place(path) { .name($0, $1, prefix: "~", suffix: "") }
                    let entry = try it.backing(path).1
                    let companion = try #require(Volume.companionName(of: entry))
                    result["companion\(suffix)"] = .name([], companion, prefix: "~", suffix: ".n")
                    result["encoding\(suffix)"] = .link([], companion)
                }
                for suffix in ["", "2"] {
                    result["link\(suffix)"] = try it.place("link\(suffix)", TamperPlace.link)
                    result["link text\(suffix)"] = try it.place("link\(suffix)", TamperPlace.text)
                }
                return result
            })
    }

    /// Records set aside by a removal that the power has cut off; they are put back by whoever mounts.
    private static func aside() throws -> TamperScene {
        let text: @Sendable ([UInt8]) -> [LayoutField] = { [LayoutField("hash", 0..<$0.count)] }
        let places: Places = { it in
            var result: [String: TamperPlace] = [:]
            for (path, suffix) in [("d", ""), ("d2", "2")] {
                let entry = try it.backing(path).1
                let id = try #require(try it.volume.directoryID(it.node(path)))
                let name = it.volume.names.asideName(
                    parent: it.volume.keys.metadata.rootID, directory: id, name: entry)
                result["aside\(suffix)"] = .name([], name, prefix: ".protectfs.aside.", suffix: "")
                result["record\(suffix)"] = .link([], name)
            }
            return result
        }
        return try TamperScene(
            .aes256GCM,
            [
                TamperKind(name: "Record set aside, its name", place: "aside", partner: "aside2", fields: text),
                link("Record set aside, its target", "record") { _ in DirectoryRecord.fields },
            ],
            build: { it in
                for path in ["d", "d2"] {
                    try it.mkdir(path)
                    try it.write("\(path)/inner", path)
                }
            },
            change: { it in
                for path in ["d", "d2"] { try it.setClass(path, "B") }
            },
            after: { it in
                let found = try places(it)
                for (path, suffix) in [("d", ""), ("d2", "2")] {
                    guard case .name(_, let name, _, _)? = found["aside\(suffix)"] else { continue }
                    let directory = try it.volume.directory(it.node(path))
                    try directory.rename(BackingName.record, to: it.directory, name)
                }
            },
            places: places)
    }
}

extension TestVolume {
    func put(_ path: String, _ bytes: [UInt8], at offset: Int) throws(VolumeError) {
        let node = try node(path)
        let content = try volume.open(node, writable: true)
        defer { volume.release(node, writable: true) }
        try content.put(bytes, at: offset)
    }
}
