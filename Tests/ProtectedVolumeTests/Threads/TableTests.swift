// What a mount remembers, each table by itself: how much, for how long, and what its lock keeps apart.

import HostSystem
import KeyFiles
import Synchronization
import TestSupport
import Testing

@testable import BackingStore
@testable import MemoryStore
@testable import ProtectedVolume

@Suite struct TableTests {
    @Test func eachThingIsReportedOnce() throws {
        let it = try TestVolume()
        let told = Atomic(0)
        let notices = Notices { _ in told.add(1, ordering: .relaxed) }
        for _ in 0..<2 {
            notices.tellUnprovenKey()
            notices.tellDamagedRecord(of: it.volume.root)
            notices.tellUndecryptable(try #require(EntryName("a")), in: it.volume.root)
            for inode in 0..<5000 { notices.tellNewer(.header, inode: UInt64(inode)) }
        }
        #expect(told.load(ordering: .relaxed) == 3 + 4096)
        notices.tell(.unprovenPublicKey)
        #expect(told.load(ordering: .relaxed) == 4 + 4096)
    }

    @Test func aTrueSizeCountsForItsLengthOnly() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        let sizes = TrueSizes()
        sizes.compare(7, of: node.key, backingLength: 100, isTold: false, before: node.serial + 1)
        #expect(sizes.size(of: node.key, backingLength: 100) == 7)
        #expect(sizes.size(of: node.key, backingLength: 101) == nil)
        #expect(sizes.wereWrong(for: node))
        // The file closes with this size, and then with another one.
        sizes.settle(7, of: node.key)
        #expect(sizes.size(of: node.key, backingLength: 100) == 7)
        sizes.settle(8, of: node.key)
        #expect(sizes.size(of: node.key, backingLength: 100) == nil)
        sizes.remember(7, of: node.key, backingLength: 100, before: node.serial)
        #expect(!sizes.wereWrong(for: node))
        sizes.forget(node.key)
        #expect(sizes.size(of: node.key, backingLength: 100) == nil)
    }

    @Test func listingsThatWereNotUsedGoFirst() throws {
        let status = try TestVolume().directory.status()
        let stamp = ChangeStamp(status)
        let listings = RecentListings<String>(room: 4)
        for directory in 1...4 { listings.keep("\(directory)", of: UInt64(directory), stamp, weight: 1) }
        #expect(listings.content(of: 1, stamp) == "1")
        var later = status
        later.changed.seconds += 1
        #expect(listings.content(of: 1, ChangeStamp(later)) == nil)
        listings.keep("5", of: 5, stamp, weight: 1)
        #expect([1, 2, 3, 4, 5].map { listings.content(of: $0) } == ["1", nil, nil, "4", "5"])
    }

    @Test func aCopyThatIsBeingMadeIsNoLeftover() throws {
        let copies = Copies()
        let name = try #require(EntryName("copy"))
        copies.begin(name)
        #expect(try copies.unlessMaking(name) { () throws(Errno) in Issue.record("removed") } == false)
        copies.end(name)
        #expect(try copies.unlessMaking(name) { () throws(Errno) in })
    }

    /// A third open does not wait, so that a thread is left to serve the kernel.
    @Test func twoOpensWait() {
        let opened = OpenContents()
        let isInTheWay = Atomic(true)
        inThreads(3) { number in
            if number < 2 {
                // The third one may have a place for a moment.
                var hasWaited = false
                while !hasWaited, isInTheWay.load(ordering: .acquiring) {
                    opened.waitForOthers(milliseconds: 60_000) {
                        hasWaited = true
                        return isInTheWay.load(ordering: .acquiring)
                    }
                }
            } else {
                // Those before may not wait yet.
                var hasReturned = false
                while !hasReturned {
                    var asked = 0
                    opened.waitForOthers(milliseconds: 60_000) {
                        asked += 1
                        return asked == 1
                    }
                    hasReturned = asked == 0
                }
                isInTheWay.store(false, ordering: .releasing)
            }
        }
    }
}
