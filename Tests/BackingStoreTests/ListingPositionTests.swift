// Tests that positions of a listing lose nothing when they are shown in 31 bits.

@testable import BackingStore
import Testing

@Suite struct ListingPositionTests {
    private static let end: UInt64 = .max >> 1

    /// Positions as ext4 gives them, in order; some have the same upper half, also that of the first names.
    private static let hashed: [UInt64] = [
        7, 0x8000_0000, 1 << 32, 5 << 32 | 9, 5 << 32 | 10, 5 << 32 | 0xFFFF_FFFF, 6 << 32 | 1, 0x7FFF_FFFE << 32 | 3,
        end,
    ]

    @Test func hashesComeBack() {
        let positions = ListingPositions(isHashed: true)
        var own: UInt64 = 0
        for next in Self.hashed {
            let shown = positions.shown(next, after: own)
            #expect(shown != 0 && shown <= UInt64(Int64.max))
            let stored = positions.stored(shown)
            // What comes back is behind the entry before, and not behind the next one.
            #expect(stored <= next && stored > own || stored == next, "\(next)")
            own = next
        }
    }

    @Test func theyAreShortWhereTheyCanBe() {
        let positions = ListingPositions(isHashed: true)
        #expect(positions.shown(6 << 32 | 1, after: 5 << 32 | 9) == 6)
        #expect(positions.shown(5 << 32 | 10, after: 5 << 32 | 9) == 5 << 32 | 10)
        #expect(positions.shown(Self.end, after: 6 << 32) == 0x7FFF_FFFF)
        #expect(positions.stored(0x7FFF_FFFF) == Self.end)
    }

    @Test(arguments: [1, 24, 0x7FFF_FFFF, 6 << 32 | 1, .max] as [UInt64])
    func othersStayAsTheyAre(position: UInt64) {
        let positions = ListingPositions(isHashed: false)
        #expect(positions.shown(position, after: 1) == position)
        #expect(positions.stored(position) == position)
    }
}
