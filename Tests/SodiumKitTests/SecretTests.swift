// Tests secret memory: copies, wiping, reuse, and the number of buffers under a limit.

import Glibc
import Testing
import VolumeFormat

@testable import SodiumKit

struct SecretTests {
    @Test func keysCopyAndCompare() throws {
        let one = try countingKey()
        let same = try one.copy()
        let other = try SecretKey.random()
        let isSame = one.isEqual(to: same)
        #expect(isSame)
        let isOther = one.isEqual(to: other)
        #expect(!isOther)
        #expect(array(one) == (0..<32).map { UInt8($0) })
    }

    @Test func keysAreWipedOnRelease() throws {
        let pool = SlotPool(slotSize: 64, slabSize: 4096)
        let slot = try pool.take()
        unsafe slot.pointer.storeBytes(of: 0x55AA_55AA, as: UInt32.self)
        pool.release(slot)
        #expect(unsafe slot.pointer.load(as: UInt32.self) == 0)
        let again = try pool.take()
        #expect(unsafe again.pointer == slot.pointer)
    }

    @Test func aPoolGrowsAndKeepsSlotsApart() throws {
        let pool = SlotPool(slotSize: 1024, slabSize: 4096)
        var slots: [Slot] = []
        for _ in 0..<10 { slots.append(try pool.take()) }
        let addresses = slots.map { unsafe UInt(bitPattern: $0.pointer) }.sorted()
        for (a, b) in zip(addresses, addresses.dropFirst()) { #expect(b - a >= 1024) }
        #expect(addresses.allSatisfy { $0 % 64 == 0 })
        for slot in slots { pool.release(slot) }
    }

    @Test(arguments: [0, 1, 32, 33, 256, 1000, 4096, 4097, 100_000])
    func bytesOfEverySize(count: Int) throws {
        let content = randomArray(count)
        var secret = try SecretBytes(copying: content.span)
        #expect(array(secret) == content)
        let copy = try secret.copy()
        secret.shorten(to: count / 2)
        #expect(array(secret) == Array(content.prefix(count / 2)))
        #expect(array(copy) == content)
    }

    @Test func aMappingIsLockedAndLeftOutOfDumps() throws {
        let mapping = try GuardedMapping(minimum: 10_000)
        #expect(mapping.byteCount == 12_288)
        let flags = unsafe try #require(memoryFlags(of: UInt(bitPattern: mapping.start)))
        #expect(flags.isSuperset(of: flagsOfSecrets))
        let guardFlags = unsafe try #require(memoryFlags(of: UInt(bitPattern: mapping.start) - 1))
        #expect(guardFlags.isDisjoint(with: ["rd", "wr"]))
    }

    @Test func theLimitDecidesHowManyBuffersThereAre() {
        #expect(BufferPool.largeCount(limit: 0) == 2)
        #expect(BufferPool.largeCount(limit: 8 << 20) == 4)
        #expect(BufferPool.largeCount(limit: 64 << 20) == 16)
        #expect(BufferPool.largeCount(limit: .max) == 16)
    }

    @Test func buffersAreWipedWhenTheyComeBack() throws {
        let pool = BufferPool(largeCount: 1, smallCount: 1)
        for size in [1000, 100_000] {
            do {
                var buffer = try pool.take(atLeast: size)
                buffer.withMutableBytes(count: size) { bytes in randomBytes(into: &bytes) }
            }
            let again = try pool.take(atLeast: size)
            let isZero = again.withBytes(count: size) { bytes in
                bytes.indices.allSatisfy { bytes[$0] == 0 }
            }
            #expect(isZero)
        }
    }

    @Test func whoFindsNoBufferWaits() async throws {
        let pool = BufferPool(largeCount: 2, smallCount: 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    for round in 0..<20 {
                        var buffer = try pool.take(atLeast: BufferPool.largeCapacity)
                        buffer.withMutableBytes(count: 64) { bytes in
                            bytes.storeLittleEndian(task * 100 + round, at: 0)
                        }
                        sched_yield()
                        let seen = buffer.withBytes(count: 64) { $0.littleEndian(at: 0, as: Int.self) }
                        #expect(seen == task * 100 + round)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func manyThreadsTakeAndReleaseKeys() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<200 {
                        let key = try SecretKey.random()
                        let copy = try key.copy()
                        let isSame = copy.isEqual(to: key)
                        #expect(isSame)
                        _ = mac128(key, Span<UInt8>())
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func randomBytesDiffer() {
        let one: InlineArray<16, UInt8> = randomInlineBytes()
        let two: InlineArray<16, UInt8> = randomInlineBytes()
        #expect(array(one) != array(two))
    }
}

/// lo: locked, dd: not dumped, wf: wiped on fork (proc_pid_smaps(5)). The sanitizers make mlock do nothing.
var flagsOfSecrets: Set<String> {
    let isSanitized = ["__asan_init", "__tsan_init"].contains { (name: String) in unsafe dlsym(nil, name) != nil }
    return isSanitized ? ["dd", "wf"] : ["lo", "dd", "wf"]
}

/// The VmFlags of the mapping that has `address`, from /proc/self/smaps.
func memoryFlags(of address: UInt) -> Set<String>? {
    guard let file = unsafe fopen("/proc/self/smaps", "r") else { return nil }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 4096)
    var isInside = false
    while unsafe fgets(&line, 4096, file) != nil {
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let range = text.split(separator: " ").first?.split(separator: "-") ?? []
        if range.count == 2, let low = UInt(range[0], radix: 16), let high = UInt(range[1], radix: 16) {
            isInside = low <= address && address < high
        } else if isInside, text.hasPrefix("VmFlags:") {
            return Set(text.dropFirst(8).split(whereSeparator: { $0 == " " || $0 == "\n" }).map(String.init))
        }
    }
    return nil
}
