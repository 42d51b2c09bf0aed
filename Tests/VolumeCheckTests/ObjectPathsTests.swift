// The paths of a check: their texts, and trees that are deeper than a stack.

import BackingStore
import HostSystem
import KeyFiles
import Testing

@testable import VolumeCheck

@Suite struct ObjectPathsTests {
    private func path(_ names: [String]) -> ObjectPaths {
        names.reduce(ObjectPaths()) { $0.appending(Array($1.utf8), BackingName.known(Array("\($1)~".utf8))) }
    }

    @Test func namesAreJoined() {
        #expect(path([]).visible == [])
        #expect(path(["a"]).visible == Array("a".utf8))
        #expect(path(["a", "b", "c"]).visible == Array("a/b/c".utf8))
        #expect(path(["a", "b", "c"]).backing == Array("a~/b~/c~".utf8))
    }

    /// The longest path that is shown has all names, and the next one its first and last ones.
    @Test func longPathsAreShortened() {
        let names = (0..<1024).map { String(1000 + $0 % 1000).dropFirst() }.map(String.init)
        let shown = path(names.dropLast() + ["last"])
        #expect(shown.isShown && shown.visible.count == 4096)
        #expect(!shown.backing.starts(with: shown.visible.prefix(8)))
        let long = path(names + ["last"])
        #expect(!long.isShown)
        let text = String(decoding: long.visible, as: UTF8.self)
        #expect(text.hasPrefix("000/001/002/") && text.hasSuffix("/021/022/023/last"))
        #expect(text.contains("//...//") && text.utf8.count <= 4096 + 7)
        #expect(long.wholeBacking.count == 1024 * 5 + 5)
        #expect(text.split(separator: "/").allSatisfy { names.contains(String($0)) || ["...", "last"].contains($0) })
    }

    /// The memory grows with the number of names only, and is released without a call for each of them.
    @Test func deeperThanAStack() throws {
        let thread = try #require(
            BackgroundThread(name: "small stack", stackSize: 128 << 10) {
                var all = [ObjectPaths()]
                for depth in 0..<100_000 { all.append(all[depth].appending([100], BackingName.record)) }
                #expect(all[100_000].visible.count <= TreePath.longest + 7)
                #expect(all[100_000].wholeBacking.count > 1_000_000)
                // From the top on, so that the deepest one has the only reference to all.
                all.removeSubrange(..<100_000)
            })
        thread.join()
    }

    @Test func partsThatAnInterruptedCheckHasDone() {
        let root = WalkedPart.before(Array("b/m/x".utf8)[...])
        func has(_ directories: [String], _ name: String) -> Bool {
            directories.reduce(root) { $0.part(in: $1.utf8) }.has(name.utf8)
        }
        #expect(has([], "a") && has([], "b") && !has([], "b-") && !has([], "c"))
        #expect(has(["a"], "z") && !has(["b-"], "a") && !has(["c"], "a"))
        #expect(has(["b"], "l") && has(["b"], "m") && !has(["b"], "n"))
        #expect(has(["b", "l"], "z") && has(["b", "m"], "w") && !has(["b", "m"], "x") && !has(["b", "m", "x"], "a"))
        let behind = WalkedPart.before(WalkPlace.behind(Array("b".utf8)).path[...])
        #expect(behind.part(in: "b".utf8).has("z".utf8) && !behind.has("b-".utf8))
        #expect(WalkedPart.before([]).part(in: "a".utf8).has("a".utf8) == false)
    }
}
