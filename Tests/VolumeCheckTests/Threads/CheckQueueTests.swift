// The queue of a check keeps the order of the tree and stays short.

import Glibc
import HostSystem
import TestSupport
import Testing

@testable import VolumeCheck

@Suite struct CheckQueueTests {
    /// A tree of numbers: each item reports itself, and queues its children.
    private func walk(
        width: Int, depth: Int, threads: Int, mostWaiting: Int, slow: Int?
    ) -> (reports: [[Int]], longest: Int) {
        let reports = Lock<[[Int]]>([])
        let longest = Lock(0)
        let queue = CheckQueue<[Int], [Int]>([], mostWaiting: mostWaiting) { path in
            reports.withLock { $0.append(path) }
        }
        inThreads(threads) { _ in
            while let (number, path) = queue.next() {
                longest.withLock { $0 = max($0, queue.count) }
                if let slow, path == [slow] { usleep(50_000) }
                let children = path.count < depth ? (0..<width).map { path + [$0] } : []
                // Half of them are put back at once, as a worker does with the rest of a directory.
                for child in children.dropFirst(width / 2).reversed() { queue.add(child, behind: number) }
                queue.end(number, [path], Array(children.prefix(width / 2)))
            }
        }
        return (reports.withLock { $0 }, longest.withLock { $0 })
    }

    private func expected(width: Int, depth: Int, _ path: [Int] = []) -> [[Int]] {
        [path] + (path.count < depth ? (0..<width).flatMap { expected(width: width, depth: depth, path + [$0]) } : [])
    }

    @Test(arguments: [(1, 4096), (4, 4096), (4, 8), (3, 1)])
    func reportsComeInTheOrderOfTheTree(threads: Int, mostWaiting: Int) {
        let all = expected(width: 7, depth: 4)
        for slow in [nil, 0, 3] {
            let found = walk(width: 7, depth: 4, threads: threads, mostWaiting: mostWaiting, slow: slow)
            #expect(found.reports == all)
            // Some tens for each worker, whatever the scheduler does, and not the 2,801 of the tree.
            #expect(found.longest < 700)
        }
    }
}
