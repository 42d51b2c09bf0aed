// Overflow objects, and the links and attributes that refer to them, as a scene of the tamper matrix.

import KeyFiles
import TestSupport
import BackingStore
import Testing
import VolumeFormat

@testable import ProtectedVolume

extension TamperScene {
    /// Two links whose targets have no room in the store's links, and files with attribute records; before, each had another one.
    static func overflow() throws -> TamperScene {
        try TamperScene(
            .aes256GCM,
            [
                link("Long symlink", "link") { LayoutField.sealed(count: $0.count) },
                TamperKind(
                    name: "Long symlink, its text", place: "link text", partner: "link text2",
                    fields: { [LayoutField("text", 0..<$0.count)] }),
                link("Overflow object of a symlink", "overflow") { LayoutField.sealed(count: $0.count) },
                link("Attribute record", "record") { LayoutField.sealed(count: $0.count) },
                link("Attribute record in an overflow object", "long record") { LayoutField.sealed(count: $0.count) },
                link("Overflow object of an attribute record", "attributes") { LayoutField.sealed(count: $0.count) },
            ],
            build: { it in
                for path in ["link", "link2"] { try it.link(path, target("before \(path)")) }
                for path in ["f", "f2", "g", "g2"] {
                    try it.write(path, "content")
                    try it.attribute(path, attribute, value("before \(path)"))
                }
            },
            change: { it in
                for path in ["link", "link2"] {
                    try it.unlink(path)
                    try it.link(path, target("after \(path)"))
                }
                for path in ["f", "f2", "g", "g2"] { try it.attribute(path, attribute, value("after \(path)")) }
            },
            places: { it in
                var result: [String: TamperPlace] = [:]
                for suffix in ["", "2"] {
                    result["link\(suffix)"] = try it.place("link\(suffix)", TamperPlace.link)
                    result["link text\(suffix)"] = try it.place("link\(suffix)", TamperPlace.text)
                    let reference = try #require(it.volume.overflowReference(of: it.node("link\(suffix)")))
                    for (name, file) in [("record", "f"), ("long record", "g")] {
                        let stored = try it.attributeBackingName(file + suffix, "user.protectfs.attributes")
                        result[name + suffix] = try it.place(file + suffix) { .attributeValue($0, $1, stored) }
                    }
                    let node = try it.node("g\(suffix)")
                    let object = try it.volume.backing(node)
                    let attributes = try it.volume.storedAttributes(object, it.volume.objectID(of: node))
                    let names = try object.attributeNames()
                    let record = try #require(attributes.overflowReference(in: names))
                    result["attributes\(suffix)"] = .file([BackingName.overflow], OverflowObjects.name(of: record.id))
                    result["overflow\(suffix)"] = .file([BackingName.overflow], OverflowObjects.name(of: reference.id))
                }
                return result
            })
    }

    /// A name that is too long for an attribute of the store's own.
    private static let attribute = "user." + String(repeating: "n", count: 200)

    /// A value that makes the record an overflow object only for `g` and `g2`.
    private static func value(_ text: String) -> String { String(repeating: text, count: text.contains("g") ? 200 : 5) }

    private static func target(_ text: String) -> String { String(repeating: text + "/", count: 300) }
}
