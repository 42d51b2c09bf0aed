// Tests opens of a file whose size the kernel was told wrong: it must get another node at its second look.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Synchronization
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct WrongSizeTests {
    /// The kernel looks a stale name up once more. The program gets the second error, so there must be none, however many programs
    /// open the file at the same time.
    @Test func severalProgramsOpenAFileWhoseRecordsChangeItsSize() throws {
        for round in 0..<40 {
            let scene = try LateScene()
            scene.it.lock()
            try scene.late(String(repeating: "late", count: 20_000), at: 5)
            try scene.it.volume.close()
            let again = try scene.it.mountAgain(scene.store.crash(seed: 1).root)
            let shown = try again.node("f")
            inThreads(6) { number in
                let writable = number % 3 == 0
                do throws(VolumeError) {
                    let content = try again.volume.open(shown, writable: writable)
                    again.volume.release(shown, writable: writable)
                    Issue.record("round \(round): opened with the size that was shown; now it is \(content.size)")
                } catch {
                    #expect(error == .stale, "round \(round)")
                    #expect(throws: Never.self, "round \(round): the kernel has looked once more") {
                        let found = try again.node("f")
                        #expect(try again.volume.attributes(of: found).size == 80_005)
                        _ = try again.volume.open(found, writable: writable)
                        again.volume.release(found, writable: writable)
                    }
                }
            }
        }
    }

    @Test func anOpenThatFindsAWrongSizeWaitsForOthersToClose() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        it.volume.trueSizes.remember(7, of: node.key, backingLength: 0, before: node.serial + 1)
        let isOpen = Atomic(false)
        inThreads(2) { number in
            if number == 0 {
                try? it.volume.withContent(node, writable: true) { (_) throws(VolumeError) in
                    isOpen.store(true, ordering: .sequentiallyConsistent)
                    sleep(milliseconds: 50)
                }
            } else {
                while !isOpen.load(ordering: .sequentiallyConsistent) { sleep(milliseconds: 1) }
                #expect(throws: VolumeError.stale) { try it.volume.open(node, writable: false) }
                #expect(throws: Never.self) { try it.volume.open(it.node("f"), writable: false) }
            }
        }
    }
}
