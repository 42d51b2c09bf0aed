// FUSE over io_uring: the form of requests and answers, the numbers of a plan, and real mounts where the kernel has it.

import CFuse3
import Glibc
import HostSystem
import Testing

@testable import FuseBridge

@Suite struct RingEntryTests {
    /// A header in the form of the kernel: `length` bytes of request, of which `payload` are in the payload.
    private func put(_ entry: borrowing RingEntry, length: UInt32, payload: UInt32, opcode: UInt32 = 16) {
        let header = unsafe entry.bytes.count - 4096
        unsafe entry.bytes.storeBytes(of: length, toByteOffset: header, as: UInt32.self)
        unsafe entry.bytes.storeBytes(of: opcode, toByteOffset: header + 4, as: UInt32.self)
        unsafe entry.bytes.storeBytes(of: 77, toByteOffset: header + 8, as: UInt64.self)
        unsafe entry.bytes.storeBytes(of: 77, toByteOffset: header + RingEntry.commit, as: UInt64.self)
        unsafe entry.bytes.storeBytes(of: payload, toByteOffset: header + RingEntry.payloadSize, as: UInt32.self)
        for index in 0..<128 { unsafe entry.bytes[header + RingEntry.operation + index] = UInt8(index) }
    }

    @Test func requestsComeAsFromTheDevice() {
        let entry = RingEntry(dataCapacity: 65536)!
        for index in 0..<5000 { unsafe entry.bytes[index] = UInt8(truncatingIfNeeded: index * 7 + 1) }
        put(entry, length: 40 + 24 + 4999, payload: 4999)
        var place = [UInt8](repeating: 0xEE, count: 8192)
        let count = unsafe place.withUnsafeMutableBytes {
            unsafe entry.takeRequest(into: $0.baseAddress!, room: $0.count)
        }
        #expect(count == 5063)
        #expect(entry.unique == 77 && entry.opcode == 16)
        #expect(place[40..<64].elementsEqual(0..<24))
        #expect(place[64] == 1 && place[64 + 4998] == UInt8(truncatingIfNeeded: 4998 * 7 + 1) && place[5063] == 0xEE)
        // The program's data has only passed through; what was not part of the request stays.
        unsafe #expect(entry.bytes[..<4999].allSatisfy { $0 == 0 } && entry.bytes[4999] != 0)
    }

    @Test(
        arguments: [
            (39, 0), (40, 1), (40 + 129, 0), (9000, 0), (40 + 70000, 70000), (40, UInt32.max), (UInt32.max, 0), (0, 0),
        ] as [(UInt32, UInt32)])
    func malformedRequestsAreRefused(_ length: UInt32, _ payload: UInt32) {
        let entry = RingEntry(dataCapacity: 65536)!
        put(entry, length: length, payload: payload)
        var place = [UInt8](repeating: 0xEE, count: 80000)
        let count = unsafe place.withUnsafeMutableBytes {
            unsafe entry.takeRequest(into: $0.baseAddress!, room: $0.count)
        }
        #expect(count == nil && place.allSatisfy { $0 == 0xEE })
        entry.putError(EIO)
        let header = unsafe entry.bytes[(entry.bytes.count - 4096)...]
        unsafe #expect(header.prefix(16).elementsEqual([16, 0, 0, 0, 251, 255, 255, 255, 77, 0, 0, 0, 0, 0, 0, 0]))
    }

    @Test func answersAreWipedButTheNextRequestStays() {
        let entry = RingEntry(dataCapacity: 8192)!
        var (head, body) = ([UInt8](repeating: 9, count: 16), [UInt8](repeating: 5, count: 8192))
        let put: (Int) -> Int? = { length in
            unsafe head.withUnsafeMutableBytes { head in
                unsafe body.withUnsafeMutableBytes { body in
                    let parts = unsafe [
                        iovec(iov_base: head.baseAddress, iov_len: 16),
                        iovec(iov_base: body.baseAddress, iov_len: 1000),
                        iovec(iov_base: body.baseAddress, iov_len: length),
                    ]
                    return unsafe parts.withUnsafeBufferPointer { unsafe entry.putAnswer($0) }
                }
            }
        }
        #expect(put(3000) == 4016)
        unsafe #expect(entry.bytes[3999] == 5 && entry.bytes[4000] == 0)
        // The kernel has put the next request there, with 100 bytes of payload.
        self.put(entry, length: 40 + 100, payload: 100)
        entry.wipeAnswer(4000, to: 76)
        unsafe #expect(entry.bytes[99] == 5 && entry.bytes[100..<4000].allSatisfy { $0 == 0 })
        entry.wipeAnswer(4000, to: 77)
        unsafe #expect(entry.bytes[..<4000].allSatisfy { $0 == 0 })
        #expect(put(7192) == 8208)
        #expect(put(7193) == nil)
    }
}

@Suite struct RingPlanTests {
    @Test func buffersFitIntoLockedMemory() throws {
        let roomy = try #require(RingPlan(processors: 64, workers: 10, dataCapacity: 1 << 20, lockable: .max))
        #expect(roomy.queues == 64 && roomy.workersPerQueue == 10 && roomy.dataCapacity == 1 << 20)
        for processors in [1, 2, 4, 8, 10] {
            let plan = try #require(
                RingPlan(processors: processors, workers: 4, dataCapacity: 1 << 18, lockable: 3 << 20))
            #expect(plan.workersPerQueue >= 2 && plan.workersPerQueue <= 4)
            let one =
                WorkerBuffer.size(dataCapacity: plan.dataCapacity) + RingEntry.size(dataCapacity: plan.dataCapacity)
            #expect(one * plan.workersPerQueue * processors <= 3 << 20)
        }
        // 64 processors and 3 MiB: not even small buffers fit.
        #expect(RingPlan(processors: 64, workers: 4, dataCapacity: 1 << 18, lockable: 3 << 20) == nil)
        #expect(RingPlan(processors: 0, workers: 4, dataCapacity: 1 << 18, lockable: .max) == nil)
        #expect(RingPlan(processors: 4096, workers: 4, dataCapacity: 1 << 18, lockable: .max) == nil)
    }

    @Test func processorsAreCounted() {
        #expect(RingPlan.count(of: "0") == 1)
        #expect(RingPlan.count(of: "0-1") == 2)
        #expect(RingPlan.count(of: "0-3,8,10-11") == 7)
        for bad in ["", "a", "3-1", "0-", "0-1-2", "0,,1", "-1"] { #expect(RingPlan.count(of: bad) == nil) }
    }
}

@Suite struct RingQueueTests {
    @Test func aQueueGetsWorkersWhenNoneWaits() {
        let queue = RingQueue(0, most: 2)
        #expect(queue.begin() && !queue.begin())
        // The first takes a request, so a second one starts. Both busy: no third one.
        #expect(queue.took())
        #expect(!queue.took())
        // The second one's request is parked: a third one starts, and is parked too: a fourth one.
        #expect(queue.parked())
        #expect(!queue.took())
        #expect(queue.parked())
        queue.freed(wasParked: true)
        #expect(!queue.took())
        queue.freed(wasParked: false)
        #expect(!queue.took())
        // One that could not be started is tried again.
        let other = RingQueue(1, most: 2)
        #expect(other.begin() && other.took())
        other.failed()
        #expect(other.begin())
    }

    /// Under a limit of locked memory, workers beyond the plan leave it to the keys.
    @Test func parkedRequestsStartOnlySoMany() {
        let queue = RingQueue(0, most: 1, isUnlimited: false)
        var started = queue.begin() ? 1 : 0
        #expect(queue.mayLock)
        for _ in 0..<1000 {
            guard started > 0 else { break }
            _ = queue.took()
            if queue.parked() { started += 1 } else { break }
        }
        #expect(started == 1 + RingQueue.mostForParked)
        #expect(!queue.mayLock && RingQueue(0, most: 1).mayLock)
    }
}
