// Renames over objects that a newer version has made, in every state of the lock, and what repairs do with their names.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct NewerReplacedTests {
    private static let size = 20_000

    /// A file of each class, in which `change` has made something newer. `source` and `d` have class D, explicitly.
    private func scene(
        _ classes: [String], unlocked: Bool = true, _ change: (TestVolume, String) throws -> Void
    ) throws -> TestVolume {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.setClass("d", "D")
        for name in classes {
            try it.fill("d/" + name, [UInt8](repeating: 7, count: Self.size))
            try it.setClass("d/" + name, name)
            try change(it, "d/" + name)
        }
        for name in ["source", "inherited"] { try it.write("d/" + name) }
        try it.setClass("d/source", "D")
        return try it.again(unlocked: unlocked)
    }

    /// - Parameter asSource: whether the file must not take the place of another one, either.
    private func refusesRenames(
        _ it: TestVolume, over path: String, _ object: Damage, _ what: String, asSource: Bool = true
    ) throws {
        try it.refuses(object, "\(what): rename over \(path)") { () throws(VolumeError) in
            try it.rename("d/source", path)
        }
        guard asSource else { return }
        try it.refuses(object, "\(what): rename of \(path)") { () throws(VolumeError) in
            try it.rename(path, "d/source")
        }
    }

    /// Which generations there are is no secret, and is known through a lock.
    @Test func generationsAreKnownThroughALock() throws {
        let it = try scene(["A", "B", "C", "D"]) { it, path in try it.signHeader(path) { $0[10] = 1 } }
        for state in ["unlocked", "locked", "unlocked again"] {
            for name in ["A", "B", "C", "D"] { try refusesRenames(it, over: "d/" + name, .header, state) }
            if state == "unlocked" { it.lock() } else if state == "locked" { try it.unlock() }
        }
        #expect(it.newerNotices == 4)
    }

    /// A file of a known generation is closed and not newer, and can be replaced as before.
    @Test func otherFilesAreReplacedWhileLocked() throws {
        for locks in [true, false] {
            let it = try scene(["A", "B", "C"], unlocked: locks) { _, _ in }
            if locks { it.lock() }
            #expect(throws: VolumeError.self) { try it.read("d/A") }
            for name in ["A", "B"] {
                try it.write("d/new")
                try it.setClass("d/new", "D")
                try it.rename("d/new", "d/" + name)
                #expect(try it.read("d/" + name) == "x")
            }
            #expect(it.newerNotices == 0)
        }
    }

    /// Before the first unlock only the generations that the keybag names are known, and those of class D.
    @Test func otherGenerationsWaitForTheFirstUnlock() throws {
        let it = try scene(["A", "B", "C", "D"], unlocked: false) { it, path in try it.signHeader(path) { $0[10] = 1 } }
        let before = try image(of: it.directory)
        for (name, protectionClass) in [
            ("A", ProtectionClass.complete), ("B", .completeUnlessOpen), ("C", .completeUntilFirstUserAuthentication),
        ] {
            for source in ["d/source", "d/inherited"] {
                #expect(throws: VolumeError.locked(protectionClass)) { try it.rename(source, "d/" + name) }
                #expect(throws: VolumeError.locked(protectionClass)) { try it.rename("d/" + name, source) }
            }
        }
        #expect(try image(of: it.directory) == before)
        try refusesRenames(it, over: "d/D", .header, "before first unlock")
        try it.unlock()
        for name in ["A", "B", "C"] { try refusesRenames(it, over: "d/" + name, .header, "unlocked") }
        try it.unlink("d/A")
    }

    /// While the class is closed no tag can be verified. The field alone is enough to keep the file.
    @Test(arguments: [0, 4] as [UInt64]) func fieldsOfClosedFiles(_ block: UInt64) throws {
        for unlocked in [true, false] {
            let it = try scene(["A", "B"], unlocked: unlocked) { it, path in
                try it.signBlock(path, block) { $0[2] |= 2 }
            }
            if unlocked {
                for name in ["A", "B"] {
                    try refusesRenames(it, over: "d/" + name, .block, "unlocked", asSource: block == 0)
                }
                it.lock()
            }
            for name in ["A", "B"] {
                try refusesRenames(it, over: "d/" + name, .block, "closed", asSource: block == 0)
            }
            try it.unlock()
            for name in ["A", "B"] {
                try refusesRenames(it, over: "d/" + name, .block, "unlocked again", asSource: block == 0)
            }
        }
    }

    /// What does not verify is damage, also in the last page.
    @Test func aFieldThatDoesNotVerifyIsDamage() throws {
        let it = try scene(["A"]) { it, path in
            let start = PageGeometry(suite: .aes256GCM).fieldRange(ofBlock: 4).lowerBound
            try it.damage(path, at: UInt64(4 * 4096 + start + 2), [2])
        }
        try it.rename("d/source", "d/A")
        #expect(it.newerNotices == 0)
    }

    /// The header decides about the file as a whole. Besides, its ends are looked at.
    @Test(arguments: [4, 2] as [UInt64]) func theLastBlock(_ block: UInt64) throws {
        let it = try scene(["C"]) { it, path in try it.signBlock(path, block) { $0[2] |= 2 } }
        let isEnd = block == 4
        if isEnd {
            try it.refuses(.block, "O_TRUNC") { () throws(VolumeError) in
                _ = try it.volume.open(it.node("d/C"), writable: true, truncate: true)
            }
            for size: UInt64 in [0, 9, 9000, 30_000] {
                try it.refuses(.block, "truncate to \(size)") { () throws(VolumeError) in
                    var change = AttributeChange()
                    change.size = size
                    _ = try it.volume.setAttributes(of: it.node("d/C"), change)
                }
            }
            try it.refuses(.block, "class") { () throws(VolumeError) in try it.setClass("d/C", "A") }
            try refusesRenames(it, over: "d/C", .block, "rename", asSource: false)
            it.lock()
            try refusesRenames(it, over: "d/C", .block, "rename while locked", asSource: false)
        } else {
            try it.setClass("d/C", "B")
            try it.rename("d/source", "d/C")
        }
    }

    @Test func attributesOfWhatIsReplaced() throws {
        for locks in [false, true] {
            let it = try TestVolume()
            for path in ["A", "C", "plain"] {
                try it.write(path)
                try it.attribute(path, "user.known", "value")
                if path == "plain" { continue }
                try it.setClass(path, path)
                try it.attribute(path, "user.one", "value")
                try it.signAttribute(path, "user.one", "newer")
            }
            for path in ["d", "e"] { try it.mkdir(path) }
            try it.attribute("d", "user.one", "value")
            try it.signAttribute("d", "user.one", "newer")
            try it.link("link", "target")
            let again = try it.again()
            if locks { again.lock() }
            for path in ["A", "C"] {
                try again.write("new")
                try again.setClass("new", "D")
                for source in ["new", "link"] {
                    try again.refuses(.attribute, "rename of \(source) over \(path)") { () throws(VolumeError) in
                        try again.rename(source, path)
                    }
                }
                let node = try again.node(path)
                if path == "C" {
                    // The same for an open file.
                    _ = try again.volume.open(node, writable: false)
                    try again.refuses(.attribute, "rename over an open file") { () throws(VolumeError) in
                        try again.rename("new", path)
                    }
                    again.volume.release(node, writable: false)
                }
                try again.volume.removeXattr(node, Array("user.one".utf8))
                try again.rename("new", path)
            }
            try again.refuses(.attribute, "rename over a directory") { () throws(VolumeError) in
                try again.rename("e", "d")
            }
            try again.rmdir("d")
            try again.write("new")
            try again.rename("new", "plain")
            try again.rename("link", "plain")
        }
    }

    /// A newer block anywhere, or a newer attribute, is enough.
    @Test func namesOfNewerContentAreNotRepaired() throws {
        let it = try TestVolume()
        let names = ["first", "middle", "last", "attribute", "known"]
        for name in names {
            try it.fill(name, [UInt8](repeating: 7, count: Self.size))
            try it.attribute(name, "user.one", "value")
        }
        try it.mkdir("directory")
        try it.attribute("directory", "user.one", "value")
        try it.signBlock("first", 0) { $0[2] |= 2 }
        try it.signBlock("middle", 2) { $0[2] |= 2 }
        try it.signBlock("last", 4) { $0[2] |= 2 }
        for name in ["attribute", "directory"] { try it.signAttribute(name, "user.one", "newer") }
        for name in names + ["directory"] { try it.scramble(name) }
        try it.volume.close()
        let before = try image(of: it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.actions == ["renamed"], "known")
        #expect(found.summary.newer == 5)
        let after = try image(of: it.directory)
        #expect(before.filter { after[$0.key] != $0.value }.count == 1)
    }

    /// A copy of what can be read would lack the attribute.
    @Test func aFileWithANewerAttributeIsNotSalvaged() throws {
        let it = try TestVolume()
        try it.fill("f", [UInt8](repeating: 7, count: Self.size))
        try it.attribute("f", "user.one", "value")
        try it.signAttribute("f", "user.one", "newer")
        try it.damage("f", at: 2 * 4096 + 300)
        try it.volume.close()
        let before = try image(of: it.directory)
        let found = try it.repair(quarantines: true)
        #expect(found.kinds == ["block", "newer"] && found.actions == [] && found.summary.remaining == 1)
        #expect(try image(of: it.directory) == before)
    }
}

/// Files that are shorter than a page: a newer version may have such.
@Suite struct NewerShortTests {
    private func scene(
        _ length: UInt64, afterACrash: Bool, _ change: (inout [UInt8]) -> Void
    ) throws -> TestVolume {
        let it = try TestVolume()
        try it.write("f", "content")
        try it.attribute("f", "user.one", "value")
        try it.write("other")
        try it.signHeader("f", change)
        let (directory, entry) = try it.backing("f")
        try it.volume.close()
        try directory.openFile(entry, .readWrite).truncate(to: length)
        if afterACrash {
            let open = StateFileStore(directory: it.states.root, volumeID: it.volume.keys.volumeID)
            try open.update { $0?.layout.openEpochs.append(77) }
        }
        return it
    }

    @Test(arguments: [128, 2048, 4095] as [UInt64]) func aShortNewerFile(_ length: UInt64) throws {
        for (offset, value) in [(3, 3), (4, 8), (8, 0x80), (9, 1), (10, 9)] as [(Int, UInt8)] {
            for afterACrash in [true, false] {
                let it = try scene(length, afterACrash: afterACrash) { $0[offset] |= value }
                let before = try image(of: it.directory)
                for repairs in [false, true] {
                    let found = repairs ? try it.repair(quarantines: true) : try it.repair(repairs: false)
                    #expect(found.kinds == ["newer"] && found.actions == [] && found.summary.mended == 0)
                    #expect(!found.summary.isWhole && !found.summary.closedEpochs)
                    #expect(try image(of: it.directory) == before, "byte \(offset)")
                }
                let again = try it.mountAgain(it.directory)
                let node = try again.node("f")
                #expect(try again.volume.attributes(of: node).size == 0)
                try again.refuses(.header, "read") { () throws(VolumeError) in _ = try again.read(node) }
                try again.refuses(.header, "write") { () throws(VolumeError) in
                    _ = try again.volume.open(node, writable: true, truncate: true)
                }
                try again.refuses(.header, "class") { () throws(VolumeError) in try again.setClass("f", "A") }
                try again.refuses(.header, "attribute") { () throws(VolumeError) in
                    try again.attribute("f", "user.two", "x")
                }
                try again.refuses(.header, "rename over it") { () throws(VolumeError) in try again.rename("other", "f")
                }
                try again.unlink("f")
                try again.volume.close()
            }
        }
    }

    /// A header of this version in a short file is what a crash left, and without a crash it is damage.
    @Test(arguments: [0, 127, 128, 2048, 4095] as [UInt64]) func aShortFileOfThisVersion(_ length: UInt64) throws {
        for flags: UInt8 in [0, 0xF0] {
            let it = try scene(length, afterACrash: true) { $0[9] |= flags }
            #expect(try it.mountAgain(it.directory).read("f") == "")
            let damaged = try scene(length, afterACrash: false) { $0[9] |= flags }
            #expect(try damaged.repair(repairs: false).kinds == ["missing-header"])
        }
    }

    /// Fewer bytes than a header, or a wrong MAC, prove nothing.
    @Test func whatDoesNotVerifyIsNotNewer() throws {
        for length: UInt64 in [127, 2048] {
            let it = try scene(length, afterACrash: true) { $0[3] = 3 }
            if length > 127 { try it.damage("f", at: 20) }
            #expect(try it.mountAgain(it.directory).read("f") == "")
        }
    }
}
