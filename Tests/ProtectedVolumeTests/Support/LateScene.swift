// A file that is written to after its keys are gone.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

/// A class A file that is open, with its volume.
struct LateScene {
    let store: MemoryStore
    let it: TestVolume
    let node: Node
    let content: FileContent

    init(_ names: [String] = ["f"]) throws {
        store = MemoryStore()
        it = try TestVolume(store.root)
        for name in names {
            try it.write(name, "old old old")
            try it.setClass(name, "A")
        }
        node = try it.node(names[0])
        content = try it.volume.open(node, writable: true)
        try it.volume.synchronize(node, dataOnly: false)
        try it.volume.synchronizeDirectory(it.volume.root)
    }

    func late(_ text: String, at offset: UInt64 = 0, _ other: FileContent? = nil) throws {
        let bytes = Array(text.utf8)
        try it.volume.writeLate(bytes.span, at: offset, to: other ?? content)
    }

    var lateFiles: [String] { Self.lateFiles(store) }
    var openLocks: [StateFileLayout.OpenLock] { get throws { try Self.openLocks(it.states, it) } }

    static func lateFiles(_ store: MemoryStore) -> [String] {
        ((try? store.root.entries()) ?? []).map { String(decoding: $0.name.bytes, as: UTF8.self) }
            .filter { $0.hasPrefix(".protectfs.late.") }
    }

    static func openLocks(_ states: MemoryStore, _ it: TestVolume) throws -> [StateFileLayout.OpenLock] {
        try StateFileStore(directory: states.root, volumeID: it.volume.keys.volumeID).load()?.layout.openLocks ?? []
    }
}
