// Tests the pool of random bytes: never the same twice, erased after use, one seed for many.

import HostSystem
import Testing

@testable import SodiumKit

struct RandomPoolTests {
    private func bytes(_ pool: RandomPool, _ count: Int) throws -> [UInt8] { try pool.draw(count) { array($0) } }

    @Test func drawsAndPoolsDiffer() throws {
        let pools = [RandomPool(), RandomPool()]
        var seen: Set<[UInt8]> = []
        for _ in 0..<1000 {
            for pool in pools { seen.insert(try bytes(pool, 16)) }
        }
        #expect(seen.count == 2000)
        #expect(try bytes(pools[0], RandomPool.longest).count == RandomPool.longest)
    }

    @Test func oneSeedServesMany() throws {
        let pool = RandomPool()
        let start = monotonicNanoseconds()
        for _ in 0..<RandomPool.drawsOfSeed { _ = try bytes(pool, 72) }
        // Seconds of a busy machine count, too.
        let seconds = Int(nanoseconds(from: start, to: monotonicNanoseconds()) / 1_000_000_000)
        #expect(pool.seeds <= 1 + seconds)
        let before = pool.seeds
        _ = try bytes(pool, 72)
        #expect(pool.seeds > before || seconds > 0)
    }

    @Test func whatWasDrawnIsErased() throws {
        let pool = RandomPool()
        let drawn = try bytes(pool, 64)
        #expect(drawn.contains { $0 != 0 })
        let room = try unsafe ThreadScratch.prepared()
        #expect((0..<96).allSatisfy { unsafe room.load(fromByteOffset: $0, as: UInt8.self) == 0 })
    }

    @Test func aForkedChildTakesItsOwnSeed() throws {
        let pool = RandomPool()
        _ = try bytes(pool, 16)
        let seeds = pool.seeds
        try pool.forgetKey()
        _ = try bytes(pool, 16)
        #expect(pool.seeds == seeds + 1)
    }

    @Test func threadsShareAPool() async throws {
        let pool = RandomPool()
        let all = try await withThrowingTaskGroup(of: [[UInt8]].self) { group in
            for _ in 0..<4 {
                group.addTask { try (0..<500).map { _ in try pool.draw(24) { array($0) } } }
            }
            return try await group.reduce(into: Set<[UInt8]>()) { $0.formUnion($1) }
        }
        #expect(all.count == 2000)
    }

    @Test func newFilesDifferInEverything() throws {
        let one = try NewFileBytes()
        let two = try NewFileBytes()
        #expect(array(one.id) != array(two.id) && array(one.nonce) != array(two.nonce))
        let first = one.takeKey()
        let isSame = first.isEqual(to: two.takeKey())
        #expect(!isSame)
    }
}
