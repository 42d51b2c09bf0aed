// Tests that nothing is encrypted to a public key that no unlock has verified on this machine.

import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import ProtectedVolume

@Suite struct UnprovenKeyTests {
    @Test func nothingIsEncryptedToIt() throws {
        let store = MemoryStore()
        let first = try TestVolume(store.root)
        try first.mkdir("b")
        try first.setClass("b", "B")
        try first.write("b/kept", "kept")
        try first.mkdir("d")
        try first.setClass("d", "D")
        try first.write("d/file", "file")
        try first.volume.close()
        let ring = try first.keys.ring(isPublicKeyProven: false)
        let it = try TestVolume(first.keys, store.root, first.states, ring: ring)
        let refusal = VolumeError.locked(.completeUnlessOpen)
        for _ in 0..<3 { #expect(throws: refusal) { try it.write("b/new", "new") } }
        #expect(try it.list("b") == ["kept"])
        #expect(it.notices.withLock { $0 } == ["unprovenPublicKey"])
        // Nor by a change of class, whoever makes it.
        #expect(throws: refusal) { try it.setClass("d/file", "B") }
        try it.write("d/saved", "saved")
        #expect(throws: refusal) { try it.rename("d/saved", "b/kept") }
        #expect(try it.getClass("d/file") == "none" && it.list("d").count == 2)
        try it.keys.unlock(ring)
        #expect(try it.read("b/kept") == "kept")
        try it.write("b/new", "new")
        try it.rename("d/saved", "b/kept")
        #expect(try it.getClass("b/kept") == "completeUnlessOpen")
        it.lock()
        try it.write("b/locked", "locked")
        #expect(it.notices.withLock { $0 }.count == 1)
    }
}
