// The table of known nodes, where a tree is deeper than a stack.

import BackingStore
import HostSystem
import Testing

@testable import ProtectedVolume

struct NodeTableTests {
    /// The kernel may forget the directories first, and last the file at the bottom, which has pages.
    @Test func deepTreesAreForgottenWithoutAStack() throws {
        let it = try TestVolume()
        let nodes = it.volume.nodes
        var status = try it.directory.status()
        let name = try #require(EntryName("d"))
        var parent = it.volume.root
        var known: [Node] = []
        for level in 0..<200_000 {
            status.inode = 1_000_000 + UInt64(level)
            parent = nodes.remember(status, kind: .directory, at: Place(parent: parent, name: name))
            known.append(parent)
        }
        for node in known.dropLast() { nodes.forget(node, count: 1) }
        #expect(nodes.count == 200_001)
        known = []
        nodes.forget(parent, count: 1)
        #expect(nodes.count == 1)
        parent = it.volume.root
    }

    @Test func shallowTreesKeepTheirPlaces() throws {
        let it = try TestVolume()
        let directory = try it.mkdir("d")
        try it.write("d/f")
        let file = try it.node("d/f")
        it.volume.forget(directory, count: 100)
        #expect(it.volume.nodes.knows(directory))
        it.volume.forget(file, count: 100)
        #expect(!it.volume.nodes.knows(directory) && !it.volume.nodes.knows(file))
        #expect(file.state.withLock { $0.place?.parent } === directory)
    }
}
