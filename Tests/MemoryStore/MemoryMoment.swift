// Losing power at one moment of a `MemoryStore`: the outcomes that are possible, and the store that each one leaves.

import BackingStore
import Glibc
import HostSystem

extension MemoryStore {
    /// The changes that reached the disk: a number of the metadata changes that could be lost, and a set of page
    /// writes.
    struct Outcome: Hashable, Sendable {
        var metadata: Int
        var pages: [Bool]
    }

    /// A store at one time, from which the power can be cut in every way.
    struct Moment: Sendable {
        let state: State
        /// Positions in `state.pending` of metadata that is not forced yet.
        let metadata: [Int]
        /// Positions of page writes that are not forced yet.
        let pages: [Int]

        init(_ state: State) {
            self.state = state
            (metadata, pages) = state.open
        }

        /// Lengths of the metadata prefix × subsets of page writes; some leave the same store.
        var count: Int {
            guard pages.count < 40 else { return Int.max }
            let (product, overflow) = (metadata.count + 1).multipliedReportingOverflow(by: 1 << pages.count)
            return overflow ? Int.max : product
        }

        /// The `index`-th of `count` outcomes.
        func outcome(_ index: Int) -> Outcome {
            let subset = index / (metadata.count + 1)
            return Outcome(
                metadata: index % (metadata.count + 1), pages: pages.indices.map { subset >> $0 & 1 == 1 })
        }

        /// A random outcome. The ends are where the interesting ones are: all metadata, none, and everything between.
        func outcome(_ random: inout SplitMix) -> Outcome {
            let kept =
                switch random.next() % 4 {
                case 0: metadata.count
                case 1: 0
                default: Int(random.next() % UInt64(metadata.count + 1))
                }
            let weight = random.next() % 5
            return Outcome(metadata: kept, pages: pages.map { _ in random.next() % 4 < weight })
        }

        /// All outcomes that leave different stores where there are no more than `limit` of any kind, else so many
        /// random ones: the last change of metadata lost, one page write lost, and one alone are always among them.
        func outcomes(atMost limit: Int, seed: UInt64) -> [Outcome] {
            if count <= limit { return (0..<count).map(outcome) }
            var all: Set<Outcome> = []
            for kept in [metadata.count, metadata.count - 1, 0] where kept >= 0 {
                for arrives in [true, false] {
                    let most = [Bool](repeating: arrives, count: pages.count)
                    all.insert(Outcome(metadata: kept, pages: most))
                    for place in pages.indices where all.count < limit / 2 {
                        var one = most
                        one[place].toggle()
                        all.insert(Outcome(metadata: kept, pages: one))
                    }
                }
            }
            var random = SplitMix(seed: seed)
            for _ in 0..<2 * limit where all.count < limit { all.insert(outcome(&random)) }
            return all.sorted { one, other in
                if one.metadata != other.metadata { return one.metadata < other.metadata }
                return one.pages.lexicographicallyPrecedes(other.pages) { !$0 && $1 }
            }
        }

        /// The store that an outcome leaves; with `skippingSame`, nil where an outcome with fewer page writes leaves
        /// the same one.
        func store(_ outcome: Outcome, skippingSame: Bool = false) -> MemoryStore? {
            let end = outcome.metadata < metadata.count ? metadata[outcome.metadata] : state.pending.count
            var image = state.durable
            var lost: [Int: [Range<UInt64>]] = [:]
            // Page writes that may arrive and did, with no cut or punch since.
            var written: Set<PageOfFile> = []
            var next = 0
            for (place, item) in state.pending.enumerated() {
                if case .page(let file, let index, _) = item.change {
                    var arrives = item.isForced
                    if next < pages.count, pages[next] == place {
                        arrives = outcome.pages[next]
                        next += 1
                    }
                    guard arrives else { continue }
                    let isOrderedAfterLoss =
                        lost[file].map { lost in
                            lost.contains { $0.contains(index) } || Self.isUnallocated(index, of: file, in: image)
                        } ?? false
                    if isOrderedAfterLoss {
                        if skippingSame, !item.isForced { return nil }
                        continue
                    }
                    if skippingSame {
                        let page = PageOfFile(file: file, index: index)
                        if written.contains(page), lost[file] == nil { return nil }
                        if !item.isForced { written.insert(page) }
                    }
                    image.apply(item.change, at: item.time)
                } else if place < end {
                    if skippingSame, let file = item.change.file, let dropped = item.change.droppedPages {
                        written = written.filter { $0.file != file || !dropped.contains($0.index) }
                    }
                    image.apply(item.change, at: item.time)
                } else if let file = item.change.file, let pages = item.change.droppedPages {
                    lost[file, default: []].append(pages)
                }
            }
            return MemoryStore(image, nextObject: state.nextObject)
        }

        private struct PageOfFile: Hashable {
            let file: Int
            let index: UInt64
        }

        /// Whether writing the page needs space that only metadata after a change of size gives it: a hole at the end.
        private static func isUnallocated(_ index: UInt64, of file: Int, in image: MemoryImage) -> Bool {
            guard let object = image.objects[file] else { return false }
            return (index + 1) * MemoryImage.pageSize > object.size && object.pages[index] == nil
        }

        /// The changes since everything was durable, and those of them that an outcome has lost.
        func describe(_ outcome: Outcome) -> String {
            let end = outcome.metadata < metadata.count ? metadata[outcome.metadata] : state.pending.count
            var next = 0
            return state.pending.enumerated().map { (place, item) in
                var arrives = place < end
                if item.change.isData {
                    arrives = item.isForced
                    if next < pages.count, pages[next] == place {
                        arrives = outcome.pages[next]
                        next += 1
                    }
                }
                return (arrives ? "" : "LOST ") + item.change.summary
            }.joined(separator: "; ")
        }
    }
}

extension MemoryImage.Change {
    /// In a few words, for reports.
    var summary: String {
        switch self {
        case .make(_, let name, let number, let object): "make \(object.kind) \(name) as #\(number)"
        case .makeNameless(let number, let object): "make \(object.kind) without a name as #\(number)"
        case .link(_, let name, let number): "link #\(number) as \(name)"
        case .unlink(_, let name): "unlink \(name)"
        case .rename(_, let name, _, let newName, let exchange):
            "\(exchange ? "exchange" : "rename") \(name) and \(newName)"
        case .resize(let file, let size): "#\(file) length \(size / 4096)×4096+\(size % 4096)"
        case .punch(let file, let pages): "#\(file) punch \(pages)"
        case .update(let number, _, _, _, _, _): "#\(number) times or mode"
        case .attribute(let number, _, _): "#\(number) attribute"
        case .page(let file, let index, _): "#\(file) page \(index)"
        }
    }
}
