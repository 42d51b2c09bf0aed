// Overflow objects and the links that refer to them, as a scene of the tamper matrix.

import TestSupport
import BackingStore
import Testing
import VolumeFormat

@testable import ProtectedVolume

extension TamperScene {
    /// Two links whose targets have no room in the store's links; before, each had another one.
    static func overflow() throws -> TamperScene {
        try TamperScene(
            .aes256GCM,
            [
                link("Long symlink", "link") { LayoutField.sealed(count: $0.count) },
                TamperKind(
                    name: "Long symlink, its text", place: "link text", partner: "link text2",
                    fields: { [LayoutField("text", 0..<$0.count)] }),
                link("Overflow object", "overflow") { LayoutField.sealed(count: $0.count) },
            ],
            build: { it in
                for path in ["link", "link2"] { try it.link(path, target("before \(path)")) }
            },
            change: { it in
                for path in ["link", "link2"] {
                    try it.unlink(path)
                    try it.link(path, target("after \(path)"))
                }
            },
            places: { it in
                var result: [String: TamperPlace] = [:]
                for suffix in ["", "2"] {
                    result["link\(suffix)"] = try it.place("link\(suffix)", TamperPlace.link)
                    result["link text\(suffix)"] = try it.place("link\(suffix)", TamperPlace.text)
                    let reference = try #require(it.volume.overflowReference(of: it.node("link\(suffix)")))
                    result["overflow\(suffix)"] = .file([BackingName.overflow], OverflowObjects.name(of: reference.id))
                }
                return result
            })
    }

    private static func target(_ text: String) -> String { String(repeating: text + "/", count: 300) }
}
